// The floating types that C++ lacks: binary16, bfloat16 and the 8-bit floats, stored as bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cstdint>
#include <cstring>

namespace opc {

namespace detail {
inline float bitsToFloat(uint32_t b) {
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}
inline uint32_t floatToBits(float f) {
  uint32_t b;
  std::memcpy(&b, &f, 4);
  return b;
}
} // namespace detail

/// IEEE binary16, stored as bits. Arithmetic happens in f32; conversion rounds to nearest, ties to even.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit inline float16(float v);
  explicit inline operator float() const;
};

/// The upper half of an f32. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit inline bfloat16(float v);
  explicit inline operator float() const;
};

/// An 8-bit float, stored as bits; nothing computes in it. `Format` says how many bits the exponent and the mantissa
/// have, the exponent's bias, the largest finite code, and the code of what is too large when it does not saturate.
template <class Format> struct Float8 {
  uint8_t bits = 0;
  Float8() = default;
  /// Saturating.
  explicit Float8(float v) : Float8(fromFloat(v, true)) {}
  /// To nearest, ties to even; NaN stays NaN. What is too large, infinity included, becomes the largest finite number
  /// of its sign when saturating, else infinity, or NaN where the format has none.
  static inline Float8 fromFloat(float v, bool saturate);
  explicit inline operator float() const;
};
/// E4M3FN: bias 7, no infinities, the all-ones codes are NaN (https://arxiv.org/abs/2209.05433, as in ONNX and MLIR).
struct FormatE4M3FN {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr uint8_t kLargest = 0x7e, kTooLarge = 0x7f;
  static constexpr bool kHasInfinity = false;
};
/// E5M2: bias 15, infinities and NaNs as in IEEE formats.
struct FormatE5M2 {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr uint8_t kLargest = 0x7b, kTooLarge = 0x7c;
  static constexpr bool kHasInfinity = true;
};
using float8_e4m3fn = Float8<FormatE4M3FN>;
using float8_e5m2 = Float8<FormatE5M2>;

// The usual branch-light conversions: rescale by a power of two so that the hardware does the rounding of subnormals.
inline float16::float16(float v) {
  const uint32_t x = detail::floatToBits(v);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t mag = x & 0x7fffffffu;
  if (mag > 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | 0x7e00u | ((mag >> 13) & 0x1ffu));
  } else if (mag >= 0x477ff000u) { // rounds to 65536 or more, or infinite
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (mag < 0x38800000u) { // subnormal or zero: adding 0.5 puts the wanted bits into the low mantissa
    const float shifted = detail::bitsToFloat(mag) + 0.5f;
    bits = static_cast<uint16_t>(sign | (detail::floatToBits(shifted) - 0x3f000000u));
  } else {
    const uint32_t odd = (mag >> 13) & 1u;
    bits = static_cast<uint16_t>(sign | ((mag - 0x38000000u + 0xfffu + odd) >> 13));
  }
}
inline float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return detail::bitsToFloat(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float f = static_cast<float>(mantissa) * 5.9604644775390625e-8f; // 2^-24
    return sign ? -f : f;
  }
  return detail::bitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}
inline bfloat16::bfloat16(float v) {
  const uint32_t x = detail::floatToBits(v);
  if ((x & 0x7fffffffu) > 0x7f800000u)
    bits = static_cast<uint16_t>((x >> 16) | 0x40u);
  else
    bits = static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}
inline bfloat16::operator float() const { return detail::bitsToFloat(static_cast<uint32_t>(bits) << 16); }

template <class Format> Float8<Format> Float8<Format>::fromFloat(float v, bool saturate) {
  constexpr uint32_t shift = 23 - Format::kMantissa;
  constexpr uint32_t rebias = static_cast<uint32_t>(127 - Format::kBias) << 23;
  // Added to a subnormal, this float has an ulp that is the format's smallest number.
  constexpr uint32_t magic = static_cast<uint32_t>(127 + 24 - Format::kBias - Format::kMantissa) << 23;
  const uint32_t x = detail::floatToBits(v), mag = x & 0x7fffffffu;
  uint32_t code;
  if (mag > 0x7f800000u) {
    code = 0x7fu;
  } else {
    if (mag < rebias + (1u << 23))
      code = detail::floatToBits(detail::bitsToFloat(mag) + detail::bitsToFloat(magic)) - magic;
    else
      code = (mag - rebias + (1u << (shift - 1)) - 1u + ((mag >> shift) & 1u)) >> shift;
    if (code > Format::kLargest) code = saturate ? Format::kLargest : Format::kTooLarge;
  }
  Float8 result;
  result.bits = static_cast<uint8_t>((x >> 24 & 0x80u) | code);
  return result;
}
template <class Format> Float8<Format>::operator float() const {
  constexpr uint32_t shift = 23 - Format::kMantissa;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24, code = bits & 0x7fu;
  if (code > Format::kLargest)
    return detail::bitsToFloat(sign | (Format::kHasInfinity && code == Format::kTooLarge ? 0x7f800000u : 0x7fc00000u));
  if (code >> Format::kMantissa == 0) { // code times the smallest number, 2^(1 - bias - mantissa)
    constexpr uint32_t smallest = static_cast<uint32_t>(128 - Format::kBias - Format::kMantissa) << 23;
    return detail::bitsToFloat(sign | detail::floatToBits(static_cast<float>(code) * detail::bitsToFloat(smallest)));
  }
  return detail::bitsToFloat(sign | ((code << shift) + (static_cast<uint32_t>(127 - Format::kBias) << 23)));
}

/// What is known of a floating type: stored bits of the mantissa, the largest finite and the smallest normal number.
/// And how far from a reference its results may be where nobody says otherwise: |x - e| <= atol + rtol |e|.
template <class T> struct FloatLimits;
template <> struct FloatLimits<float> {
  static constexpr int mantissa = 23;
  static constexpr double largest = FLT_MAX, smallestNormal = FLT_MIN;
  static constexpr double rtol = 1.3e-6, atol = 1e-5;
};
template <> struct FloatLimits<double> {
  static constexpr int mantissa = 52;
  static constexpr double largest = DBL_MAX, smallestNormal = DBL_MIN;
  static constexpr double rtol = 1e-7, atol = 1e-9;
};
template <> struct FloatLimits<float16> {
  static constexpr int mantissa = 10;
  static constexpr double largest = 65504, smallestNormal = 0x1p-14;
  static constexpr double rtol = 1e-3, atol = 1e-3;
};
template <> struct FloatLimits<bfloat16> {
  static constexpr int mantissa = 7;
  static constexpr double largest = 0x1.fep127, smallestNormal = FLT_MIN;
  static constexpr double rtol = 1.6e-2, atol = 1e-2;
};
template <> struct FloatLimits<float8_e4m3fn> {
  static constexpr int mantissa = 3;
  static constexpr double largest = 448, smallestNormal = 0x1p-6;
  static constexpr double rtol = 0, atol = 0;
};
template <> struct FloatLimits<float8_e5m2> {
  static constexpr int mantissa = 2;
  static constexpr double largest = 57344, smallestNormal = 0x1p-14;
  static constexpr double rtol = 0, atol = 0;
};

} // namespace opc
