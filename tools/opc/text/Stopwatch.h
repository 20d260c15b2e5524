// How long each part of a command took, for --timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "NumberText.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace opc::cli {

class Stopwatch {
public:
  /// What has passed since the lap before is of this part, which may have had some already.
  void lap(const std::string &part) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    const auto known = std::find_if(laps_.begin(), laps_.end(), [&](const auto &l) { return l.first == part; });
    if (known == laps_.end())
      laps_.push_back({part, seconds});
    else
      known->second += seconds;
  }
  std::string text() const {
    std::string text;
    double total = 0;
    for (const auto &l : laps_) {
      total += l.second;
      text += (text.empty() ? "" : ", ") + l.first + " " + secondsText(l.second);
    }
    return "time: " + text + "; in all " + secondsText(total) + "\n";
  }
  Json json() const {
    Json j = Json::object();
    for (const auto &l : laps_) j[l.first] = l.second;
    return j;
  }

private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> laps_;
};

} // namespace opc::cli
