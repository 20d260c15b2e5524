// Metrics between a result and what was expected, as conditions: "cos>=0.999", "ulp<=4", "topk=5".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"

#include <optional>
#include <string>

namespace opc::cli {

struct Metric {
  enum class Kind {
    kCosine, // sum(a e) / (|a| |e|); 1 when both are zero
    kMax,    // the largest |a - e|
    kP99,    // the 99th percentile of |a - e|, nearest rank: the smallest that 99 % of the values do not exceed
    kMean,   // the mean of |a - e|
    kPsnr,   // 10 log10(range(e)^2 / mean((a - e)^2)) in dB, where range is largest minus smallest; infinite when equal
    kUlp,    // the largest distance in units of the last place of the element type; integers: |a - e|
    kTopK,   // the share of rows (last axis) whose K largest are at the same places, in any order; ties: lower index
  };
  Kind kind = Kind::kCosine;
  double bound = 0; // cos, psnr: at least; max, p99, mean, ulp: at most; topk: K
};

/// "cos>=X", "psnr>=X", "max<=X", "p99<=X", "mean<=X", "ulp<=N", "topk=K". Errors: OPC0003.
Result<Metric> parseMetric(const std::string &text);
/// "cos>=0.999".
std::string metricText(const Metric &metric);

/// The value of a metric; both tensors have the same dtype and shape. NaN where values are NaN or infinite and not the
/// same in both (a NaN equals a NaN only with `nanEqual`); what is the same is left out of sums. `k` is topk's.
double metricValue(Metric::Kind kind, const HostTensor &actual, const HostTensor &expected, bool nanEqual,
                   int64_t k = 1);
/// Whether the value satisfies the condition. NaN never does.
bool metricHolds(const Metric &metric, double value);

} // namespace opc::cli
