// How far a training run is, on standard error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"
#include "TrainingLog.h"

#include <cstdint>
#include <string>

namespace opc::cli {

/// How far the run is, on standard error: a line that is rewritten ten times a second on a terminal, a new one every
/// ten seconds elsewhere and with --progress plain, a JSON object a second with --progress json.
class TrainingProgress {
public:
  TrainingProgress(Invocation &invocation, int64_t first, int64_t total);
  bool isDue() const;
  void show(const StepMetrics &last, int64_t epochs, const std::string &values);
  /// Takes the line away, so that other text can follow.
  void clear();
  double seconds() const;

private:
  Invocation &invocation_;
  ProgressMode mode_;
  bool visible_ = false;
  int64_t first_, total_;
  double start_, shown_;
};

} // namespace opc::cli
