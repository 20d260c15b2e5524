// Rows of text in aligned columns.
// SPDX-License-Identifier: Apache-2.0
#include "TextTable.h"

#include <algorithm>

namespace opc::cli {

std::string textTable(const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths;
  for (const auto &r : rows)
    for (size_t i = 0; i < r.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], std::min<size_t>(r[i].size(), 48));
    }
  std::string text;
  for (const auto &r : rows) {
    std::string line;
    for (size_t i = 0; i < r.size(); ++i) {
      line += r[i];
      if (i + 1 < r.size()) line += std::string(r[i].size() < widths[i] ? widths[i] - r[i].size() + 2 : 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string rightAligned(const std::string &text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

} // namespace opc::cli
