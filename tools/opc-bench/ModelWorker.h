// One model that another program (tools/bench_models.py) tells when to run, so that peers take turns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::bench {

struct ModelWorkerOptions {
  std::string graph, weights;
  std::vector<std::string> inputs; // NAME=FILE.npy
  int threads = 1;
  bool fuse = true;
};

/// Compiles, loads and prepares the model, answers "ready", and then serves commands from the standard input:
/// `run N` (seconds of each of N runs), `output NAME FILE` (npy), `memory` (VmRSS and VmHWM in bytes), `quit`.
/// Answers are one line of JSON each. Returns the exit code.
int serveModel(const ModelWorkerOptions &options);

} // namespace opc::bench
