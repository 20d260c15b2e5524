// How far a training run is.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingProgress.h"

#include "JsonOutput.h"
#include "NumberText.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>

namespace opc::cli {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// "40 s", "3 min 20 s", "4 h 21 min".
std::string durationText(double seconds) {
  if (seconds < 60) return secondsText(seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
}

} // namespace

TrainingProgress::TrainingProgress(Invocation &invocation, int64_t first, int64_t total)
    : invocation_(invocation), mode_(parseProgress(invocation.flags().progress, isatty(STDERR_FILENO) != 0)),
      first_(first), total_(total), start_(now()), shown_(start_) {
  if (mode_ == ProgressMode::kNone && invocation.flags().progress == "auto") mode_ = ProgressMode::kPlain;
  if (invocation.flags().quiet) mode_ = ProgressMode::kNone;
  invocation.progress().clear();
}

bool TrainingProgress::isDue() const {
  if (mode_ == ProgressMode::kNone) return false;
  return now() - shown_ >= (mode_ == ProgressMode::kLine ? 0.1 : mode_ == ProgressMode::kJson ? 1.0 : 10.0);
}

void TrainingProgress::show(const StepMetrics &last, int64_t epochs, const std::string &values) {
  shown_ = now();
  const double rate = static_cast<double>(last.step - first_) / std::max(shown_ - start_, 1e-9);
  const double left = static_cast<double>(total_ - last.step) / std::max(rate, 1e-9);
  if (mode_ == ProgressMode::kJson) {
    Json line = {{"step", last.step}, {"steps", total_}, {"epoch", last.epoch}, {"epochs", epochs}};
    for (const auto &[name, value] : last.values) line[name] = realJson(value);
    line["steps_per_s"] = rate;
    line["seconds_left"] = left;
    return invocation_.terminal().err(jsonLine(line));
  }
  std::string text = "epoch " + std::to_string(last.epoch) + "/" + std::to_string(epochs) + "  step " +
                     std::to_string(last.step) + "/" + std::to_string(total_) + (values.empty() ? "" : "  " + values) +
                     "  " + roundedText(rate, 3) + " steps/s  " + durationText(left) + " left";
  if (mode_ == ProgressMode::kPlain) return invocation_.terminal().err(text + "\n");
  const size_t width = static_cast<size_t>(invocation_.terminal().width()) - 1;
  if (text.size() > width) text.resize(width);
  invocation_.terminal().rewriteLine(text);
  visible_ = true;
}

void TrainingProgress::clear() {
  if (visible_) invocation_.terminal().rewriteLine("");
  visible_ = false;
}

double TrainingProgress::seconds() const { return now() - start_; }

} // namespace opc::cli
