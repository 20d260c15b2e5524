// Whole numbers that no integer type has.
// SPDX-License-Identifier: Apache-2.0
#include "LargeNumbers.h"

#include "NumberText.h"

#include <cmath>
#include <cstdint>

namespace opc::cli {

namespace {
constexpr double kFewDigits = 1e18; // from here on digits say less than the size
constexpr int kDigits = 4;
} // namespace

Json wholeJson(double value) {
  const double whole = std::round(value);
  if (whole >= 0 && whole < std::ldexp(1.0, 64)) return static_cast<uint64_t>(whole);
  return whole;
}

std::string wholeText(double value) {
  const double whole = std::round(value);
  return whole >= 0 && whole < kFewDigits ? countText(static_cast<uint64_t>(whole)) : roundedText(whole, kDigits);
}

std::string largeBytesText(double bytes) {
  const double whole = std::round(bytes);
  if (whole >= 0 && whole < kFewDigits) return bytesText(static_cast<uint64_t>(whole));
  return roundedText(std::ldexp(whole, -60), kDigits) + " EiB";
}

} // namespace opc::cli
