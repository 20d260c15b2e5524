// Whether one thing takes longer than another, from times that were taken in turn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace opc::cli {

/// The median, and where it lies with a confidence of at least 95 %, whatever the distribution: the order statistics
/// of which the binomial distribution with p = 1/2 says so. With fewer than six values the interval is all of them.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
};
MedianInterval medianInterval(std::vector<double> values);

/// How many times longer: the ratio of each pair of times, and of them the median.
MedianInterval ratioInterval(const std::vector<double> &times, const std::vector<double> &baseline);

} // namespace opc::cli
