// Numbers to and from text, by std::from_chars and std::to_chars.
// SPDX-License-Identifier: Apache-2.0
#include "NumberText.h"

#include <cmath>

namespace opc::cli {

namespace {
/// "1e-4" for "1e-04".
std::string shortExponent(std::string text) {
  const size_t e = text.find('e');
  if (e == std::string::npos) return text;
  size_t digit = e + 1;
  if (digit < text.size() && text[digit] == '+') text.erase(digit, 1);
  if (digit < text.size() && text[digit] == '-') ++digit;
  while (digit + 1 < text.size() && text[digit] == '0') text.erase(digit, 1);
  return text;
}

/// About three significant digits, never in scientific notation.
std::string threeDigits(double value) {
  char buffer[400];
  const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals);
  return std::string(buffer, r.ptr);
}
} // namespace

std::optional<double> parseReal(std::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  if (text.empty() || text[0] == '+') return std::nullopt;
  double value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ptr != text.data() + text.size()) return std::nullopt;
  if (r.ec == std::errc()) return value;
  // Out of range covers both ends; a number too small to represent is zero.
  const size_t e = text.find_first_of("eE");
  const bool tiny = r.ec == std::errc::result_out_of_range && e != std::string_view::npos && e + 1 < text.size() &&
                    text[e + 1] == '-';
  if (tiny) return text[0] == '-' ? -0.0 : 0.0;
  return std::nullopt;
}

std::optional<uint64_t> parseBytes(std::string_view text) {
  const std::string_view suffixes = "KMGT";
  int shift = 0;
  if (!text.empty() && suffixes.find(text.back()) != std::string_view::npos) {
    shift = 10 * (1 + static_cast<int>(suffixes.find(text.back())));
    text.remove_suffix(1);
  }
  const auto n = parseInteger<uint64_t>(text);
  if (!n || (shift && *n >> (64 - shift))) return std::nullopt;
  return *n << shift;
}

std::string realText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, value);
  return shortExponent(std::string(buffer, r.ptr));
}

std::string roundedText(double value, int digits) {
  if (!std::isfinite(value)) return realText(value);
  char buffer[400];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, digits);
  return shortExponent(std::string(buffer, r.ptr));
}

std::string bytesText(uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  const char *units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < 6) value /= 1024, ++unit;
  char buffer[64];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, value < 100 ? 1 : 0);
  return std::string(buffer, r.ptr) + " " + units[unit];
}

std::string secondsText(double seconds) {
  if (seconds < 1e-6) return threeDigits(seconds * 1e9) + " ns";
  if (seconds < 1e-3) return threeDigits(seconds * 1e6) + " us";
  if (seconds < 1) return threeDigits(seconds * 1e3) + " ms";
  return threeDigits(seconds) + " s";
}

std::string countText(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string typeText(DataType type, const Shape &shape) {
  if (type == kInvalidDataType) return "?";
  std::string text = std::string(dataTypeName(type)) + "[";
  for (size_t i = 0; i < shape.dim_vec().size(); ++i)
    text += (i ? "," : "") + (shape.dim_vec()[i] < 0 ? "?" : std::to_string(shape.dim_vec()[i]));
  return text + "]";
}

} // namespace opc::cli
