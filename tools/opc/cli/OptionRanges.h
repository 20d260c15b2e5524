// What numbers settings take: the options of the command and the parameters of the Python package.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"

#include <array>
#include <limits>

namespace opc::cli {

struct NumberRange {
  const char *name; // of the package's parameter
  double least, most = std::numeric_limits<double>::infinity();
  bool isWhole = true, isAbove = false; // isAbove: `least` itself is not allowed
  const char *noun = "number";

  /// Written so that NaN is in no range.
  bool has(double v) const { return (isAbove ? v > least : v >= least) && v <= most; }
};

namespace ranges {
constexpr double kUint32 = 4294967295, kMany = 1099511627776; // 2^40
constexpr bool kReal = false;

inline constexpr NumberRange kThreads{"threads", 1, 4096, true, false, "number of threads"};
inline constexpr NumberRange kRanks{"ranks", 1, 4096};
inline constexpr NumberRange kCount{"count", 1, kMany}; // of steps, epochs, checkpoints
inline constexpr NumberRange kOrder{"order", 1, 4};
inline constexpr NumberRange kMicroBatches{"micro_batches", 1, 1024};
inline constexpr NumberRange kAccumulate{"accumulate", 1, kUint32};
inline constexpr NumberRange kSegments{"recompute", 2, kUint32, true, false, "number of segments"};
inline constexpr NumberRange kRate{"lr", 0, std::numeric_limits<double>::infinity(), kReal};
inline constexpr NumberRange kWeightDecay{"weight_decay", 0, std::numeric_limits<double>::infinity(), kReal};
inline constexpr NumberRange kClipNorm{"clip_norm", 0, std::numeric_limits<double>::infinity(), kReal, true};
inline constexpr NumberRange kLossScale{"loss_scale", 0, 1e300, kReal, true};
inline constexpr NumberRange kWarmup{"warmup", 1, kMany, true, false, "number of steps"};
inline constexpr NumberRange kWarmupFactor{"warmup_from", 0, 1, kReal};

inline constexpr std::array kAll = {&kThreads,    &kRanks,    &kCount,       &kOrder,       &kMicroBatches,
                                    &kAccumulate, &kSegments, &kRate,        &kWeightDecay, &kClipNorm,
                                    &kLossScale,  &kWarmup,   &kWarmupFactor};
} // namespace ranges

/// The option with this range.
inline Option within(Option option, const NumberRange &r) {
  option.least = r.least;
  if (r.most != std::numeric_limits<double>::infinity()) option.most = r.most;
  option.isAbove = r.isAbove;
  option.noun = r.noun;
  return option;
}

} // namespace opc::cli
