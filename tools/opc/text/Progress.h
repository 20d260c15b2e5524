// Progress: which part of a long command is under way, on standard error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Terminal.h"

#include <cstdint>
#include <string>

namespace opc::cli {

enum class ProgressMode { kNone, kLine, kPlain, kJson };

/// "auto" (a line that is rewritten on a terminal, nothing elsewhere), "plain" (a line for each part), "none", "json"
/// (a JSON object a line); `text` is one of them.
ProgressMode parseProgress(const std::string &text, bool stderrIsTerminal);

class Progress {
public:
  Progress(ProgressMode mode, Terminal &terminal) : mode_(mode), terminal_(&terminal) {}
  ~Progress() { clear(); }
  /// A part begins: "compiling: shape". Parts that are counted have a total.
  void begin(const std::string &part, uint64_t total = 0);
  /// `done` of the part's total. Shown at most ten times a second.
  void advance(uint64_t done);
  /// Takes the line away, so that other text can follow.
  void clear();
  bool shown() const { return mode_ != ProgressMode::kNone; }

private:
  void show(uint64_t done);
  ProgressMode mode_;
  Terminal *terminal_;
  std::string part_;
  uint64_t total_ = 0;
  double last_ = 0; // seconds on the steady clock
  bool visible_ = false;
};

} // namespace opc::cli
