// Terminal: where a command writes. Knows about colour, width and readers that went away.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <string_view>

namespace opc::cli {

enum class ColorMode { kAuto, kAlways, kNever };

/// The looks that text may have; what they are on the screen is decided here alone.
enum class Style { kPlain, kBold, kError, kWarning, kNote, kHelp, kDim };

/// Colour or not, for a stream that is or is not a terminal. NO_COLOR (unless empty) and TERM=dumb turn colour off,
/// FORCE_COLOR (unless empty or 0) turns it on; the flag wins over all of them.
bool wantsColor(ColorMode mode, bool isTerminal);

/// `text` in `style`, or as it is when `color` is false.
std::string paint(std::string_view text, Style style, bool color);

/// Columns of the terminal: COLUMNS, else the window's, else 80; never under 20.
int terminalWidth();

/// Standard output and standard error: the one door to the screen. What is written is made printable here
/// (printableText()); only the looks of paint() pass, and only where there is colour. A reader that closed the pipe (`|
/// head`) is no error: what is written after is dropped and the command ends as it would have.
class Terminal {
public:
  explicit Terminal(ColorMode mode = ColorMode::kAuto);
  ~Terminal() { (void)flush(); }

  /// Data: to standard output, buffered.
  void out(std::string_view text);
  /// A file that is asked for on standard output (`-o -`), byte for byte; on a terminal printable, as all that is
  /// shown.
  void file(std::string_view bytes);
  /// What another process of this program has written to its standard output: as it is, at once.
  void relay(std::string_view bytes);
  /// Everything else: to standard error, at once.
  void err(std::string_view text);
  /// On standard error, in place of the line that was written last: what is under way. Empty: the line goes.
  void rewriteLine(std::string_view text);
  /// Past what is buffered and muted, from any thread: the last words of one process among several.
  void errAtOnce(std::string_view text) const;
  /// From now on nothing is written: another rank of the job speaks for all.
  void mute(bool muted = true) { muted_ = muted; }
  /// The beginning of what went to standard error last, muted or not.
  const std::string &lastError() const { return lastError_; }
  /// Writes what is buffered. Error: OPC0707 when standard output cannot take it (a full disk).
  Status flush();

  bool colorOut() const { return colorOut_; }
  bool colorErr() const { return colorErr_; }
  int width() const { return width_; }
  static bool stdoutIsTerminal();

private:
  void writeError(std::string_view text);
  bool colorOut_, colorErr_;
  int width_;
  std::string buffer_;
  std::string lastError_;
  bool closed_ = false, muted_ = false;
  int failure_ = 0; // errno of the first failed write
};

} // namespace opc::cli
