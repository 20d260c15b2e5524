// Progress on standard error.
// SPDX-License-Identifier: Apache-2.0
#include "Progress.h"

#include "JsonOutput.h"
#include "NumberText.h"

#include <chrono>

namespace opc::cli {

namespace {
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
} // namespace

ProgressMode parseProgress(const std::string &text, bool stderrIsTerminal) {
  if (text == "auto") return stderrIsTerminal ? ProgressMode::kLine : ProgressMode::kNone;
  return text == "plain" ? ProgressMode::kPlain : text == "json" ? ProgressMode::kJson : ProgressMode::kNone;
}

void Progress::begin(const std::string &part, uint64_t total) {
  if (!shown()) return;
  part_ = part;
  total_ = total;
  show(0);
}

void Progress::advance(uint64_t done) {
  if (!shown()) return;
  // A plain log gets a line every ten seconds, a terminal ten lines a second.
  const double pause = mode_ == ProgressMode::kPlain ? 10 : 0.1;
  if (done < total_ && seconds() - last_ < pause) return;
  if (done >= total_ && mode_ == ProgressMode::kPlain) return; // the next part says that this one is done
  show(done);
}

void Progress::show(uint64_t done) {
  last_ = seconds();
  std::string text = part_;
  if (total_) text += " " + countText(done) + "/" + countText(total_);
  switch (mode_) {
  case ProgressMode::kNone: return;
  case ProgressMode::kPlain: terminal_->err(text + "\n"); return;
  case ProgressMode::kJson: {
    Json line = {{"schema", 1}, {"progress", part_}};
    if (total_) line["done"] = done, line["total"] = total_;
    terminal_->err(jsonLine(line));
    return;
  }
  case ProgressMode::kLine:
    // Cut to the width: a line that wraps cannot be taken back.
    terminal_->rewriteLine(text.substr(0, static_cast<size_t>(terminal_->width() - 1)));
    visible_ = true;
  }
}

void Progress::clear() {
  if (visible_) terminal_->rewriteLine("");
  visible_ = false;
}

} // namespace opc::cli
