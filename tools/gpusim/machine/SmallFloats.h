// Floating-point formats that C++ lacks, with PTX's roundings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace opc::gpusim {

enum class Rounding : uint8_t { kNearestEven, kZero, kDown, kUp, kNearestAway };

/// A format of `mantissa` explicit bits and `exponent` bits; `finite`: no infinities, the highest code is NaN (e4m3).
struct Format {
  int exponent, mantissa;
  bool finite;
};
constexpr Format kHalfFormat{5, 10, false}, kBfloatFormat{8, 7, false}, kTfloatFormat{8, 10, false}, kE4m3{4, 3, true},
    kE5m2{5, 2, false};

/// The bits of `value` in a format, rounded once. `saturate`: the largest finite number for what is too large.
uint32_t toFormat(double value, const Format &format, Rounding rounding, bool saturate);
double fromFormat(uint32_t bits, const Format &format);

inline float halfToFloat(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, rest = h & 0x7fff;
  if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest >= 0x400) return std::bit_cast<float>(sign | (rest + 0x1c000) << 13);
  float f = float(rest) * 0x1p-24f;
  return sign ? -f : f;
}
inline float bfloatToFloat(uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); }

/// To nearest even; NaN is 0x7fff, as hardware has it.
inline uint16_t floatToHalf(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return 0x7fff;
  if (rest >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (rest < 0x38800000) { // subnormal: adding 0.5 aligns and rounds
    float aligned = std::bit_cast<float>(rest) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000));
  }
  rest += 0xc8000fff + (rest >> 13 & 1);
  return uint16_t(sign | rest >> 13);
}
inline uint16_t floatToBfloat(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// a*b+c for operands of at most 11 significant bits, rounded to odd in double: a second rounding is then exact.
inline double fmaToOdd(double a, double b, double c) {
  double p = a * b, s = p + c;
  if (!std::isfinite(s)) return s;
  double v = s - p, error = (p - (s - v)) + (c - v);
  uint64_t bits = std::bit_cast<uint64_t>(s);
  if (error == 0 || (bits & 1)) return s;
  return std::bit_cast<double>((error > 0) == (s > 0) ? bits + 1 : bits - 1);
}

} // namespace opc::gpusim
