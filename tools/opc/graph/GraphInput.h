// The graph or plan that a command was given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Failure.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

struct GraphInput {
  std::string path; // as given; empty for a file of a revision, which nothing lies beside
  std::string name; // what diagnostics call it: the path, or "<stdin>"
  std::string bytes;
  bool isPlan = false;
};

/// Reads a file, or standard input for "-". Errors: OPC0706.
Result<GraphInput> readGraphInput(const std::string &path);

/// The same, or a file of a revision for "git:REV:PATH" (GitFiles.h): nothing that lies beside it is looked at.
Result<GraphInput> readGraphOrRevision(const std::string &path);

/// What a compilation that has failed found.
Failure failureOf(const Pipeline &pipeline);

/// The file name without directories and extension: "mlp" of "nets/mlp.pbtxt".
std::string graphStem(const std::string &path);

} // namespace opc::cli
