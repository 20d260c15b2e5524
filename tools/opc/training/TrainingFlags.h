// The flags of opc grad that make a training graph, and what they mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "Pipeline.h"
#include "Registry.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

class TrainingFlags {
public:
  std::vector<Option> options();
  /// Nothing when no optimizer was asked for; then the other flags are usage errors.
  Result<std::optional<TrainingConfig>> config(const Registry &registry) const;
  Result<RecomputeConfig> recompute() const;
  /// --memory in bytes; 0: not given.
  Result<uint64_t> memory() const;

private:
  std::string optimizer_, rate_, schedule_, warmup_, weightDecay_, clip_, lossScale_, accumulate_, memory_;
  std::vector<std::string> noDecay_, recompute_;
};

} // namespace opc::cli
