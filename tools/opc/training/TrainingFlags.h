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
  /// The names that --optimizer takes.
  static std::vector<std::string> optimizers();
  /// The types that --schedule takes: those of the sample cases of learning_rate_schedule.
  static std::vector<std::string> schedules(const user_op::OpDef &op);
  /// Nothing when no optimizer was asked for; then the other flags are usage errors.
  Result<std::optional<TrainingConfig>> config(const Registry &registry) const;
  Result<RecomputeConfig> recompute() const;
  /// Whether --no-decay names variables that there are. `pipeline` has imported the whole graph. Errors: OPC0005.
  Status checkVariables(const Pipeline &pipeline) const;
  /// --memory in bytes; 0: not given.
  uint64_t memory() const { return memory_.value_or(0); }

private:
  struct Warmup {
    int64_t steps = 0;
    double factor = 0;
  };
  static std::optional<Warmup> readWarmup(const std::string &text);
  bool readRecompute(const std::string &text);

  std::string optimizer_, schedule_;
  std::optional<Warmup> warmup_;
  std::optional<LossScale> lossScale_;
  std::optional<double> rate_, weightDecay_, clip_;
  std::optional<int64_t> accumulate_;
  std::optional<uint64_t> memory_;
  std::vector<std::string> noDecay_;
  RecomputeConfig recompute_;
};

} // namespace opc::cli
