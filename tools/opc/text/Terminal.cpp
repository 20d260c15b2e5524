// Terminal: buffered standard output that survives EPIPE; colour and width from the environment.
// SPDX-License-Identifier: Apache-2.0
#include "Terminal.h"

#include "PrintableText.h"
#include "WriteFailure.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

namespace opc::cli {

namespace {
bool isSet(const char *name) {
  const char *value = std::getenv(name);
  return value && *value;
}

constexpr std::string_view kLooksEnd = "\x1b[0m";

/// What a look is on the screen.
std::string_view codeOf(Style style) {
  switch (style) {
  case Style::kPlain: break;
  case Style::kBold: return "\x1b[1m";
  case Style::kError: return "\x1b[1;31m";
  case Style::kWarning: return "\x1b[1;33m";
  case Style::kNote: return "\x1b[1;36m";
  case Style::kHelp: return "\x1b[1;32m";
  case Style::kDim: return "\x1b[2m";
  }
  return "";
}

/// The length of the look that `text` begins with, or 0.
size_t lookAt(std::string_view text) {
  for (Style style : {Style::kBold, Style::kError, Style::kWarning, Style::kNote, Style::kHelp, Style::kDim})
    if (text.substr(0, codeOf(style).size()) == codeOf(style)) return codeOf(style).size();
  return text.substr(0, kLooksEnd.size()) == kLooksEnd ? kLooksEnd.size() : 0;
}

std::string printable(std::string_view text, bool color) {
  std::string out;
  for (size_t at = color ? text.find('\x1b') : std::string_view::npos; at != std::string_view::npos;) {
    if (const size_t length = lookAt(text.substr(at))) {
      out += printableText(text.substr(0, at));
      out += text.substr(at, length);
      text.remove_prefix(at + length);
      at = text.find('\x1b');
    } else {
      at = text.find('\x1b', at + 1);
    }
  }
  return out.empty() ? printableText(text) : out + printableText(text);
}

/// 0, or the errno that stopped it.
int writeAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}
} // namespace

bool wantsColor(ColorMode mode, bool isTerminal) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  if (isSet("NO_COLOR")) return false;
  if (isSet("FORCE_COLOR")) return std::string_view(std::getenv("FORCE_COLOR")) != "0";
  const char *term = std::getenv("TERM");
  return isTerminal && !(term && std::string_view(term) == "dumb");
}

std::string paint(std::string_view text, Style style, bool color) {
  const std::string_view code = codeOf(style);
  if (!color || code.empty()) return std::string(text);
  return std::string(code) + std::string(text) + std::string(kLooksEnd);
}

int terminalWidth() {
  int width = 0;
  if (const char *columns = std::getenv("COLUMNS")) {
    const auto r = std::from_chars(columns, columns + std::strlen(columns), width);
    if (r.ec != std::errc() || *r.ptr) width = 0;
  }
  winsize window{};
  if (width <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0) width = window.ws_col;
  if (width <= 0) width = 80;
  return width < 20 ? 20 : width;
}

Terminal::Terminal(ColorMode mode)
    : colorOut_(wantsColor(mode, isatty(STDOUT_FILENO))), colorErr_(wantsColor(mode, isatty(STDERR_FILENO))),
      width_(terminalWidth()) {}

void Terminal::out(std::string_view text) {
  if (closed_ || muted_) return;
  buffer_ += printable(text, colorOut_);
  if (buffer_.size() >= (size_t{1} << 16)) (void)flush();
}

void Terminal::file(std::string_view bytes) {
  if (stdoutIsTerminal()) return out(bytes);
  if (closed_ || muted_) return;
  buffer_ += bytes;
  if (buffer_.size() >= (size_t{1} << 16)) (void)flush();
}

void Terminal::relay(std::string_view bytes) {
  if (closed_) return;
  buffer_ += bytes;
  (void)flush();
}

void Terminal::err(std::string_view text) {
  if (!text.empty()) lastError_ = text.substr(0, 1000);
  writeError(printable(text, colorErr_));
}

void Terminal::errAtOnce(std::string_view text) const { (void)writeAll(STDERR_FILENO, printable(text, colorErr_)); }

void Terminal::rewriteLine(std::string_view text) { writeError("\r\x1b[K" + printable(text, colorErr_)); }

void Terminal::writeError(std::string_view text) {
  (void)flush(); // keeps the order when both are one terminal
  if (!muted_) (void)writeAll(STDERR_FILENO, text);
}

Status Terminal::flush() {
  if (!buffer_.empty() && !closed_) {
    const int error = writeAll(STDOUT_FILENO, buffer_);
    if (error) closed_ = true;
    if (error && error != EPIPE) failure_ = error;
  }
  buffer_.clear();
  return failure_ ? cannotWrite("write to", "-", failure_) : Status::ok();
}

bool Terminal::stdoutIsTerminal() { return isatty(STDOUT_FILENO); }

} // namespace opc::cli
