// The ranges of tensors over calibration data, and the numbers that stand for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunObserver.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace opc::cli {

enum class RangeMethod { kMinMax, kPercentile, kEntropy };

struct TensorRange {
  double low = 0, high = 0;
};

/// scale and zero point of u8.
struct AffineScale {
  float scale = 1;
  uint8_t zero = 0;
};
/// 0 is always within the range, and stands for itself exactly.
AffineScale affineScale(const TensorRange &range);

/// What is seen of one tensor: its extent first, then how its values are spread over it.
class TensorSpread {
public:
  void extend(const float *values, int64_t count);
  void count(const float *values, int64_t count);
  bool isSeen() const { return seen_ > 0; }
  bool isFinite() const { return finite_; }
  /// `percentile`: the share of values, in percent, that a range of kPercentile holds.
  TensorRange range(RangeMethod method, double percentile) const;

private:
  static constexpr int kBins = 2048;
  TensorRange percentileRange(double percentile) const;
  TensorRange entropyRange() const;
  TensorRange extent_;
  int64_t seen_ = 0;
  bool finite_ = true;
  /// Over the extent; over the absolute values of what is not 0, since 0 is exact at any bound: what is behind a ReLU
  /// would count for more than all else.
  std::vector<uint64_t> bins_, magnitudes_;
};

/// Watches the inputs of some tasks, by the task's name and the argument's.
class RangeObserver final : public RunObserver {
public:
  /// Argument of each task that is watched.
  explicit RangeObserver(std::map<std::string, std::string> arguments) : arguments_(std::move(arguments)) {}
  /// Extents are gathered until this is called, spreads from then on.
  void countValues() { isCounting_ = true; }
  const std::map<std::string, TensorSpread> &spreads() const { return spreads_; } // by task

  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  Status after(const ObservedTask &, int64_t, TaskData &) override { return Status::ok(); }

private:
  std::map<std::string, std::string> arguments_;
  std::map<std::string, TensorSpread> spreads_;
  bool isCounting_ = false;
};

} // namespace opc::cli
