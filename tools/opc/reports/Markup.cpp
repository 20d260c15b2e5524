// Texts of files within SVG, HTML and DOT.
// SPDX-License-Identifier: Apache-2.0
#include "Markup.h"

#include "PrintableText.h"

namespace opc::cli {

std::string markupText(std::string_view text) {
  std::string out;
  for (const char c : printableName(text)) switch (c) {
    case '&': out += "&amp;"; break;
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '"': out += "&quot;"; break;
    case '\'': out += "&#39;"; break;
    default: out += c;
    }
  return out;
}

std::string dotString(const std::vector<std::string> &lines) {
  std::string out = "\"";
  for (const std::string &line : lines) {
    if (&line != &lines.front()) out += "\\n";
    for (const char c : printableName(line)) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

std::string clipped(std::string_view text, size_t columns) {
  const std::string shown = printableName(text);
  size_t count = 0, end = 0;
  for (size_t i = 0; i < shown.size(); ++i) {
    if ((shown[i] & 0xc0) == 0x80) continue;
    if (count + 2 == columns) end = i;
    if (++count > columns) return shown.substr(0, end) + "..";
  }
  return shown;
}

} // namespace opc::cli
