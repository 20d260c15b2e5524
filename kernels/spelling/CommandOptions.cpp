// Options in texts, found.
// SPDX-License-Identifier: Apache-2.0
#include "CommandOptions.h"

namespace opc {
namespace {

/// Whether the option at `at` is that of a command which the text says: "opc grad --explain NAME shows why".
bool isOfCommand(const std::string &text, size_t at) {
  const size_t clause = text.find_last_of(";,:(`", at);
  const size_t begin = clause == std::string::npos ? 0 : clause;
  const size_t command = text.find("opc ", begin);
  return command != std::string::npos && command < at;
}

} // namespace

std::optional<std::pair<size_t, size_t>> nextBareOption(const std::string &text, size_t from) {
  for (size_t at = text.find("--", from); at != std::string::npos; at = text.find("--", at + 2)) {
    size_t end = at + 2;
    while (end < text.size() && ((text[end] >= 'a' && text[end] <= 'z') || text[end] == '-')) ++end;
    const bool isOption =
        end > at + 3 && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(' || text[at - 1] == '\'');
    if (isOption && !isOfCommand(text, at)) return std::pair(at, end);
  }
  return std::nullopt;
}

} // namespace opc
