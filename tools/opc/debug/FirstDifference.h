// opc debug first-diff: the first op whose result another way of running the same graph does not give.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Expectations.h"
#include "Invocation.h"
#include "MeshFlags.h"
#include "RunOptions.h"

#include <string>
#include <vector>

namespace opc::cli {

struct FirstDifferenceOptions {
  /// The options that fill this: those of `opc run` that say what runs and with what values, and those of the
  /// comparison.
  std::vector<Option> options();
  Status check(const Invocation &invocation, const std::string &graph);

  RunOptions run;
  MeshFlags mesh;
  std::string reference = "plain"; // "one-thread", "f64", or a path
  bool isChain = false;
  ToleranceFlags rtol, atol;

private:
  std::vector<std::string> rtolTexts_, atolTexts_;
};

/// Runs the graph, and the reference with the same values, and prints what differs: exit code 1 when something does.
Outcome<int> findFirstDifference(Invocation &invocation, FirstDifferenceOptions &options);

} // namespace opc::cli
