// The best value of a number so far.
// SPDX-License-Identifier: Apache-2.0
#include "BestSoFar.h"

#include "NumberText.h"

#include <cmath>

namespace opc::cli {

std::optional<BestMetric> readBestMetric(const std::string &text) {
  const size_t colon = text.rfind(':');
  const std::string end = colon == std::string::npos ? "" : text.substr(colon + 1);
  BestMetric best{text, end == "max"};
  if (end == "max" || end == "min") best.name = text.substr(0, colon);
  return best.name.empty() ? std::nullopt : std::optional(best);
}

bool BestSoFar::look(double value, int64_t step) {
  const bool isBetter = std::isfinite(value) && (step_ < 0 || (metric_.isLargest ? value > value_ : value < value_));
  since_ = isBetter ? 0 : since_ + 1;
  if (!isBetter) return false;
  value_ = value;
  step_ = step;
  return true;
}

std::map<std::string, std::string> BestSoFar::notes() const {
  return {{"best metric", metric_.name + (metric_.isLargest ? ":max" : ":min")},
          {"best value", realText(value_)},
          {"best step", std::to_string(step_)},
          {"best since", std::to_string(since_)}};
}

void BestSoFar::restore(const std::map<std::string, std::string> &notes) {
  const std::map<std::string, std::string> mine = this->notes();
  const auto text = [&notes](const char *key) {
    const auto it = notes.find(key);
    return it == notes.end() ? std::string() : it->second;
  };
  const auto value = parseReal(text("best value"));
  const auto step = parseInteger<int64_t>(text("best step")), since = parseInteger<int64_t>(text("best since"));
  if (text("best metric") != mine.at("best metric") || !value || !step || !since) return;
  value_ = *value;
  step_ = *step;
  since_ = *since;
}

} // namespace opc::cli
