// Rounding to formats of few bits, in every mode of PTX.
// SPDX-License-Identifier: Apache-2.0
#include "SmallFloats.h"

namespace opc::gpusim {

uint32_t toFormat(double value, const Format &f, Rounding rounding, bool saturate) {
  const int bias = (1 << (f.exponent - 1)) - 1;
  const uint32_t sign = uint32_t(std::signbit(value)) << (f.exponent + f.mantissa);
  const uint32_t top = (1u << f.exponent) - 1;
  const uint32_t infinity = top << f.mantissa;
  const uint32_t largest = f.finite ? infinity + ((1u << f.mantissa) - 2) : infinity - 1;
  if (std::isnan(value)) return f.finite ? infinity | ((1u << f.mantissa) - 1) : infinity | ((1u << f.mantissa) - 1);
  double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | (saturate ? largest : f.finite ? infinity | ((1u << f.mantissa) - 1) : infinity);
  if (magnitude == 0) return sign;
  int e = std::ilogb(magnitude);
  if (e < 1 - bias) e = 1 - bias; // subnormal: the smallest exponent's spacing
  double units = std::scalbn(magnitude, f.mantissa - e), whole = std::floor(units), rest = units - whole;
  bool up = false;
  switch (rounding) {
  case Rounding::kNearestEven: up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) == 1.0); break;
  case Rounding::kNearestAway: up = rest >= 0.5; break;
  case Rounding::kZero: break;
  case Rounding::kDown: up = rest > 0 && sign; break;
  case Rounding::kUp: up = rest > 0 && !sign; break;
  }
  uint64_t steps = uint64_t(whole) + up; // a carry goes on into the exponent by itself
  uint64_t bits =
      steps < (1u << f.mantissa) ? steps : (uint64_t(e + bias) << f.mantissa) + (steps - (1u << f.mantissa));
  if (bits <= largest) return sign | uint32_t(bits);
  bool toLargest =
      rounding == Rounding::kZero || (rounding == Rounding::kDown && !sign) || (rounding == Rounding::kUp && sign);
  if (saturate || toLargest) return sign | largest;
  return sign | (f.finite ? infinity | ((1u << f.mantissa) - 1) : infinity);
}

double fromFormat(uint32_t bits, const Format &f) {
  const int bias = (1 << (f.exponent - 1)) - 1;
  uint32_t mantissa = bits & ((1u << f.mantissa) - 1), exponent = bits >> f.mantissa & ((1u << f.exponent) - 1);
  double sign = bits >> (f.exponent + f.mantissa) & 1 ? -1.0 : 1.0;
  bool highest = exponent == (1u << f.exponent) - 1;
  if (highest && (f.finite ? mantissa == (1u << f.mantissa) - 1 : mantissa != 0)) return std::nan("");
  if (highest && !f.finite) return sign * INFINITY;
  if (exponent == 0) return sign * std::scalbn(double(mantissa), 1 - bias - f.mantissa);
  return sign * std::scalbn(double(mantissa + (1u << f.mantissa)), int(exponent) - bias - f.mantissa);
}

} // namespace opc::gpusim
