// Terminal: buffered standard output that survives EPIPE; colour and width from the environment.
// SPDX-License-Identifier: Apache-2.0
#include "Terminal.h"

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
  const char *code = "";
  switch (style) {
  case Style::kPlain: break;
  case Style::kBold: code = "1"; break;
  case Style::kError: code = "1;31"; break;
  case Style::kWarning: code = "1;33"; break;
  case Style::kNote: code = "1;36"; break;
  case Style::kHelp: code = "1;32"; break;
  case Style::kDim: code = "2"; break;
  }
  if (!color || !*code) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
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
  buffer_ += text;
  if (buffer_.size() >= (size_t{1} << 16)) (void)flush();
}

void Terminal::err(std::string_view text) {
  (void)flush(); // keeps the order when both are one terminal
  if (!text.empty()) lastError_ = text.substr(0, 1000);
  if (muted_) return;
  (void)writeAll(STDERR_FILENO, text);
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
