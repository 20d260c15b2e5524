// Values of attributes that differ, and what is said of the difference.
// SPDX-License-Identifier: Apache-2.0
#include "AttrChange.h"

#include "LockFile.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

namespace opc {
namespace {

constexpr size_t kMost = 60;  // characters of a value
constexpr size_t kAhead = 20; // of them, before the place where two begin to differ

template <class T> bool sameNumber(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

struct SameValue {
  template <class T> bool operator()(const T &a, const T &b) const {
    if constexpr (std::is_floating_point_v<T>)
      return sameNumber(a, b);
    else if constexpr (std::is_same_v<T, std::vector<float>>)
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), sameNumber<float>);
    else
      return a == b;
  }
  template <class T, class U> bool operator()(const T &, const U &) const { return false; }
};

/// A character that is more than one byte is not cut in two.
size_t characterAt(const std::string &text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

/// In one line.
std::string inLine(const std::string &text) {
  std::string line;
  for (const char c : text) {
    const bool isSpace = static_cast<unsigned char>(c) <= ' ';
    if (!isSpace || (!line.empty() && line.back() != ' ')) line += isSpace ? ' ' : c;
  }
  return line;
}

std::string part(const std::string &text, size_t from) {
  const size_t most = kMost - (from ? 6 : 3);
  const size_t begin = characterAt(text, from);
  const size_t end = text.size() - begin <= most ? text.size() : characterAt(text, begin + most);
  return (begin ? "..." : "") + text.substr(begin, end - begin) + (end < text.size() ? "..." : "");
}

} // namespace

bool sameAttribute(const AttrValue &a, const AttrValue &b) { return std::visit(SameValue(), a.variant(), b.variant()); }

std::string attributeText(const AttrValue &value) {
  const auto *raw = value.get<RawAttr>();
  if (!raw) return value.toString();
  const bool isText = std::all_of(raw->bytes.begin(), raw->bytes.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (isText && !raw->bytes.empty()) return raw->bytes;
  return "<" + std::string(attrTypeName(raw->type)) + " sha256:" + digestOf(raw->bytes) + ">";
}

std::string shortened(const std::string &text) { return text.size() <= kMost ? text : part(text, 0); }

std::string changeText(const std::string &was, const std::string &is) {
  const std::string x = inLine(was), y = inLine(is);
  const auto differs = std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first;
  const auto at = static_cast<size_t>(differs - x.begin());
  const size_t from = std::max(x.size(), y.size()) > kMost && at > kMost - kAhead ? at - kAhead : 0;
  const auto shown = [&](const std::string &text) {
    return !from && text.size() <= kMost ? text : part(text, std::min(from, text.size()));
  };
  return shown(x) + " -> " + shown(y);
}

} // namespace opc
