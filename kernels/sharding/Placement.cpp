// The devices of a tensor or op.
// SPDX-License-Identifier: Apache-2.0
#include "Placement.h"

#include <algorithm>

namespace opc {

Placement Placement::dense(std::vector<int64_t> dims, int64_t first) {
  Placement p;
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  p.dims = std::move(dims);
  for (int64_t r = 0; r < n; ++r) p.ranks.push_back(first + r);
  return p;
}

std::optional<int64_t> Placement::positionOf(int64_t rank) const {
  // Dense placements are the rule: look where the rank then is.
  if (!ranks.empty()) {
    const int64_t guess = rank - ranks[0];
    if (guess >= 0 && guess < size() && ranks[static_cast<size_t>(guess)] == rank) return guess;
  }
  const auto it = std::find(ranks.begin(), ranks.end(), rank);
  if (it == ranks.end()) return std::nullopt;
  return it - ranks.begin();
}

std::vector<int64_t> Placement::coordinates(int64_t position) const {
  std::vector<int64_t> c(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    c[d] = position % dims[d];
    position /= dims[d];
  }
  return c;
}

std::vector<int64_t> Placement::group(int64_t position, int64_t dim) const {
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > static_cast<size_t>(dim) + 1;) stride *= dims[d];
  const int64_t n = dims[static_cast<size_t>(dim)], first = position - position / stride % n * stride;
  std::vector<int64_t> members;
  for (int64_t i = 0; i < n; ++i) members.push_back(first + i * stride);
  return members;
}

std::string Placement::toString() const {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  text += size() == 1 ? " on rank " : " on ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += (i ? "," : "") + std::to_string(ranks[i]);
    if (end > i + 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

std::optional<std::vector<int64_t>> parseMesh(const std::string &text) {
  std::vector<int64_t> dims;
  int64_t total = 1;
  for (size_t at = 0;;) {
    size_t end = at;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == at || end - at > 7) return std::nullopt;
    const int64_t n = std::stoll(text.substr(at, end - at));
    if (n < 1 || (total *= n) > (int64_t{1} << 20) || dims.size() >= 8) return std::nullopt;
    dims.push_back(n);
    if (end == text.size()) return dims;
    if (text[end] != 'x') return std::nullopt;
    at = end + 1;
  }
}

} // namespace opc
