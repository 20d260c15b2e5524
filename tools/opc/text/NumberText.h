// Numbers and types to and from text without the locale: a decimal comma in LC_NUMERIC changes nothing that opc reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"
#include "opc/Shape.h"

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace opc::cli {

/// The whole of `text` as an integer of type T; nothing when it is no integer or does not fit.
template <class T> std::optional<T> parseInteger(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  T value{};
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// The whole of `text` as a double: decimal or scientific, inf, nan, with a sign. Nothing when it is no number or
/// larger than any double.
std::optional<double> parseReal(std::string_view text);

/// "800M", "16G", "4096": bytes, with K, M, G or T for powers of 1024. Nothing when it is no size or too large.
std::optional<uint64_t> parseBytes(std::string_view text);

/// The shortest text that reads back as `value`.
std::string realText(double value);
/// `value` with `digits` significant digits.
std::string roundedText(double value, int digits);
/// "1.5 KiB".
std::string bytesText(uint64_t bytes);
std::string bytesText(std::signed_integral auto bytes) { return bytesText(static_cast<uint64_t>(bytes)); }
/// "1.5 ms".
std::string secondsText(double seconds);
/// "1,234,567".
std::string countText(uint64_t n);
std::string countText(std::signed_integral auto n) { return countText(static_cast<uint64_t>(n)); }
/// "1 op", "1,234 ops".
std::string countText(std::integral auto n, const std::string &noun) {
  return countText(n) + " " + noun + (n == 1 ? "" : "s");
}

/// "f32[2,3]"; "?" for an unknown dtype or dimension.
std::string typeText(DataType type, const Shape &shape);

} // namespace opc::cli
