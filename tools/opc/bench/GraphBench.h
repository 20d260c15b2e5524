// opc bench: how long a graph takes, alone or beside another one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"
#include "RunOptions.h"

#include <cstdint>
#include <string>
#include <vector>

namespace opc::cli {

struct BenchOptions {
  /// The options that fill this: those of `opc run` that say what runs and with what values, and those of measuring.
  std::vector<Option> options();
  Status check(const Invocation &invocation, const std::string &graph);

  RunOptions run;
  std::string baseline; // a graph, a plan, git:REV:PATH, or a file of --save; empty: none
  std::string save;
  int64_t rounds = 31;
  double tolerance = 0.05; // how much longer is no regression
};

/// Measures the graph, in turn with the baseline where that is a graph, and prints the times: exit code 1 when it is
/// slower than the baseline by more than the tolerance, beyond what its spread explains.
Outcome<int> benchGraph(Invocation &invocation, BenchOptions &options);

} // namespace opc::cli
