// Rows of text in aligned columns.
// SPDX-License-Identifier: Apache-2.0
#include "TextTable.h"

#include "Terminal.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

namespace opc::cli {

namespace {

size_t tableWidth(int fd) {
  const char *columns = std::getenv("COLUMNS");
  return (columns && *columns) || isatty(fd) ? static_cast<size_t>(terminalWidth()) : 0;
}

/// The characters of a text: bytes that do not continue one.
size_t columnsOf(const std::string &text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

/// The first `columns` characters, the last of them dots where something is lost.
std::string shortened(const std::string &text, size_t columns) {
  if (columnsOf(text) <= columns) return text;
  const size_t dots = std::min<size_t>(columns, columns > 6 ? 3 : 2);
  size_t end = 0;
  for (size_t kept = 0; end < text.size() && (kept < columns - dots || (text[end] & 0xc0) == 0x80); ++end)
    kept += (text[end] & 0xc0) != 0x80;
  return text.substr(0, end) + std::string(dots, '.');
}

/// Takes from the widest columns until a line fits; none gets narrower than 4.
void fitColumns(std::vector<size_t> *widths, size_t width) {
  size_t total = 2 * widths->size() - std::min<size_t>(2, 2 * widths->size());
  for (size_t w : *widths) total += w;
  while (total > width) {
    size_t &widest = *std::max_element(widths->begin(), widths->end());
    if (widest <= 4) return;
    --widest;
    --total;
  }
}

} // namespace

std::string textTable(const std::vector<std::vector<std::string>> &given, size_t width) {
  std::vector<size_t> widths;
  for (const auto &r : given)
    for (size_t i = 0; i < r.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      const size_t most = width ? std::max<size_t>(width, 48) : 48;
      widths[i] = std::max(widths[i], std::min(columnsOf(r[i]), most));
    }
  std::vector<std::vector<std::string>> rows = given;
  if (width) {
    fitColumns(&widths, width);
    for (auto &r : rows)
      for (size_t i = 0; i < r.size(); ++i) r[i] = shortened(r[i], widths[i]);
  }
  std::string text;
  for (const auto &r : rows) {
    std::string line;
    for (size_t i = 0; i < r.size(); ++i) {
      line += r[i];
      const size_t columns = columnsOf(r[i]);
      if (i + 1 < r.size()) line += std::string(columns < widths[i] ? widths[i] - columns + 2 : 2, ' ');
    }
    if (width) line = shortened(line, width); // many columns on a narrow terminal
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

size_t outTableWidth() { return tableWidth(STDOUT_FILENO); }
size_t errTableWidth() { return tableWidth(STDERR_FILENO); }

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string rightAligned(const std::string &text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

} // namespace opc::cli
