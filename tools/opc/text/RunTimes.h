// How long runs took: percentiles, and the line that says them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::cli {

/// The smallest of `sorted` that `percent` percent of them do not exceed (nearest rank); 0 of none.
double percentileOf(const std::vector<double> &sorted, double percent);

/// "12 runs: p50 1.2 ms, p90 1.4 ms, p99 2 ms, fastest 1.1 ms, slowest 2 ms". Seconds, in any order.
std::string runTimesText(std::vector<double> seconds);

} // namespace opc::cli
