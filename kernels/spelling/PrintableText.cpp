// Texts of files made safe to show.
// SPDX-License-Identifier: Apache-2.0
#include "PrintableText.h"

#include <cstdint>
#include <cstdio>

namespace opc {
namespace {

enum class Spelling { kText, kName, kJson };

/// The character at `at` and how many bytes it has; bytes that are no UTF-8 come one by one.
struct Character {
  uint32_t code;
  size_t length;
  bool isValid;
};

Character characterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return {first, 1, true};
  const size_t length = first >= 0xf5 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (length == 0 || at + length > text.size()) return {first, 1, false};
  uint32_t code = first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return {first, 1, false};
    code = code << 6 | (byte(at + i) & 0x3f);
  }
  const uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {first, 1, false};
  return {code, length, true};
}

/// Whether a terminal obeys it: C0, DEL, C1; or it is a separator of lines or a mark of direction.
bool isObeyed(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x200e || code == 0x200f || code == 0x61c;
}

std::string spelled(std::string_view text, Spelling spelling) {
  std::string out;
  size_t done = 0; // what stands before is in `out`
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first >= 0x20 && first < 0x7f) {
      ++at;
      continue;
    }
    const Character c = characterAt(text, at);
    const bool isLine = c.code == '\n' || c.code == '\t';
    if (c.isValid && (!isObeyed(c.code) || (isLine && spelling != Spelling::kName))) {
      at += c.length;
      continue;
    }
    char code[16];
    if (isLine)
      std::snprintf(code, sizeof code, "\\%c", c.code == '\n' ? 'n' : 't');
    else
      std::snprintf(code, sizeof code,
                    c.code < 0x80 && spelling != Spelling::kJson ? "\\x%02x"
                    : c.isValid                                  ? "\\u%04x"
                                                                 : "\\x%02x",
                    static_cast<unsigned>(c.code));
    out += text.substr(done, at - done);
    out += code;
    done = at += c.length;
  }
  if (done == 0) return std::string(text);
  out += text.substr(done);
  return out;
}

} // namespace

std::string printableText(std::string_view text) { return spelled(text, Spelling::kText); }
std::string printableName(std::string_view name) { return spelled(name, Spelling::kName); }
std::string printableJson(std::string_view document) { return spelled(document, Spelling::kJson); }

} // namespace opc
