// Whether one thing takes longer than another.
// SPDX-License-Identifier: Apache-2.0
#include "PairedTimes.h"

#include <algorithm>
#include <cmath>

namespace opc::cli {

namespace {

/// The largest k for which fewer than k of n fair coins show heads with a probability of at most 2.5 %: the interval
/// from the k-th to the (n + 1 - k)-th value. 0: there is none.
size_t rankOfInterval(size_t n) {
  double logTerm = static_cast<double>(n) * std::log(0.5); // of C(n, 0) / 2^n
  double below = 0;
  for (size_t k = 0; k < n; ++k) {
    below += std::exp(logTerm);
    if (below > 0.025) return k;
    logTerm += std::log(static_cast<double>(n - k)) - std::log(static_cast<double>(k + 1));
  }
  return 0;
}

} // namespace

MedianInterval medianInterval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t n = values.size(), rank = std::max<size_t>(rankOfInterval(n), 1);
  return {(values[(n - 1) / 2] + values[n / 2]) / 2, values[rank - 1], values[n - rank]};
}

MedianInterval ratioInterval(const std::vector<double> &times, const std::vector<double> &baseline) {
  std::vector<double> ratios;
  for (size_t i = 0; i < times.size() && i < baseline.size(); ++i) ratios.push_back(times[i] / baseline[i]);
  return medianInterval(std::move(ratios));
}

} // namespace opc::cli
