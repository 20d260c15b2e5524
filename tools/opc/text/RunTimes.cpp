// Percentiles of run times.
// SPDX-License-Identifier: Apache-2.0
#include "RunTimes.h"

#include "NumberText.h"

#include <algorithm>
#include <cmath>

namespace opc::cli {

double percentileOf(const std::vector<double> &sorted, double percent) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size(), static_cast<size_t>(std::max(rank, 1.0))) - 1];
}

std::string runTimesText(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  std::string text = countText(seconds.size(), "run");
  if (seconds.empty()) return text;
  const char *before = ": ";
  for (int percent : {50, 90, 99}) {
    text += before + ("p" + std::to_string(percent)) + " " + secondsText(percentileOf(seconds, percent));
    before = ", ";
  }
  return text + ", fastest " + secondsText(seconds.front()) + ", slowest " + secondsText(seconds.back());
}

} // namespace opc::cli
