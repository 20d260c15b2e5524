// Decisions about a mesh as text.
// SPDX-License-Identifier: Apache-2.0
#include "MeshText.h"

#include "TextParts.h"

#include <charconv>
#include <string_view>

namespace opc {
namespace {

constexpr uint32_t kMostRanks = 1u << 20;

std::optional<uint32_t> number(std::string_view text) {
  uint32_t n = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), n);
  if (text.empty() || r.ec != std::errc() || r.ptr != text.data() + text.size()) return std::nullopt;
  return n;
}

} // namespace

std::optional<SbpPin> parsePin(const std::string &text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  const auto states = parseNdSbp(text.substr(equals + 1));
  if (!states) return std::nullopt;
  return SbpPin{text.substr(0, equals), *states, text};
}

std::optional<StagePlacement> parseStage(const std::string &text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  StagePlacement stage;
  stage.ops = splitAt(text.substr(0, equals), ',');
  for (const std::string &part : splitAt(text.substr(equals + 1), ',')) {
    const size_t dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first > kMostRanks) return std::nullopt;
    for (int64_t r = *first; r <= *last; ++r) stage.placement.ranks.push_back(r);
  }
  stage.placement.dims = {static_cast<int64_t>(stage.placement.ranks.size())};
  return stage;
}

} // namespace opc
