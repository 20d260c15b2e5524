// --keep-best, --patience: the best value of a number so far, and how long ago that was.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TrainingOptions.h"

#include <map>
#include <string>

namespace opc::cli {

/// "loss", "val.accuracy:max"; nothing for what names no number.
std::optional<BestMetric> readBestMetric(const std::string &text);

class BestSoFar {
public:
  explicit BestSoFar(BestMetric metric) : metric_(std::move(metric)) {}
  const BestMetric &metric() const { return metric_; }
  /// Whether `value` is better than all before. What is not finite never is.
  bool look(double value, int64_t step);
  /// How many looks in a row have found nothing better.
  int64_t since() const { return since_; }
  /// The step of the best value; -1: none yet.
  int64_t step() const { return step_; }
  double value() const { return value_; }
  /// For a checkpoint, so that a run that goes on knows what it has had.
  std::map<std::string, std::string> notes() const;
  /// Notes of another metric, or none, change nothing.
  void restore(const std::map<std::string, std::string> &notes);

private:
  BestMetric metric_;
  double value_ = 0;
  int64_t step_ = -1, since_ = 0;
};

} // namespace opc::cli
