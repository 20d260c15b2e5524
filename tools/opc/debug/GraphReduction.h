// opc debug reduce: a small graph for which a command fails as it does for a large one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CrashReplay.h"
#include "FailureSignature.h"
#include "Invocation.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

struct ReductionOptions {
  std::vector<Option> options();
  /// Errors: OPC0001, OPC0002.
  Status check(const std::string &graph) const;

  std::string command; // with {} for the graph's path; none: `replay` says what fails
  const CrashReplay *replay = nullptr;
  std::string output;
  double timeout = 60;
};

/// Leaves ops away, half of them at first and single ones at last, as long as the command fails in the same way, and
/// writes what remains. What the ops that remain read becomes an input.
Outcome<int> reduceGraph(Invocation &invocation, const ReductionOptions &options, const std::string &graph);

} // namespace opc::cli
