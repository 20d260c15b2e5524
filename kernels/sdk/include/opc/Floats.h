// The floating types that C++ lacks: binary16, bfloat16 and floats of a byte or less, stored as bits.
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

/// A floating format whose element is a byte: 8 bits, or fewer in its lowest bits. Codes are without the sign but for
/// `nan` and `tooLarge`.
struct ByteFormat {
  int mantissa, bias; // bits of the mantissa; of the exponent
  uint8_t sign;       // its bit; 0 for E8M0, which is an exponent alone: no sign, no zero
  uint8_t largest;    // the code of the largest finite number
  uint8_t tooLarge;   // what is larger becomes when nothing saturates: infinity, NaN, or the largest number
  uint8_t nan;        // for formats without one, what it becomes
  bool hasInfinity, hasNegativeZero, nanHasSign;
};
/// E4M3FN: bias 7, no infinities, the all-ones codes are NaN (https://arxiv.org/abs/2209.05433, as in ONNX and MLIR).
struct FormatE4M3FN {
  static constexpr ByteFormat format() { return {3, 7, 0x80, 0x7e, 0x7f, 0x7f, false, true, true}; }
  static constexpr double kLargest = 448, kSmallestNormal = 0x1p-6;
};
/// E5M2: bias 15, infinities and NaNs as in IEEE formats.
struct FormatE5M2 {
  static constexpr ByteFormat format() { return {2, 15, 0x80, 0x7b, 0x7c, 0x7f, true, true, true}; }
  static constexpr double kLargest = 57344, kSmallestNormal = 0x1p-14;
};
/// E4M3FNUZ and E5M2FNUZ: neither infinities nor a negative zero, whose code is the one NaN
/// (https://arxiv.org/abs/2206.02915).
struct FormatE4M3FNUZ {
  static constexpr ByteFormat format() { return {3, 8, 0x80, 0x7f, 0x80, 0x80, false, false, false}; }
  static constexpr double kLargest = 240, kSmallestNormal = 0x1p-7;
};
struct FormatE5M2FNUZ {
  static constexpr ByteFormat format() { return {2, 16, 0x80, 0x7f, 0x80, 0x80, false, false, false}; }
  static constexpr double kLargest = 57344, kSmallestNormal = 0x1p-15;
};
/// E8M0: 2^(code - 127), the scales of OCP's microscaling formats (version 1.0, section 5.4.1).
struct FormatE8M0 {
  static constexpr ByteFormat format() { return {0, 127, 0, 0xfe, 0xff, 0xff, false, false, false}; }
  static constexpr double kLargest = 0x1p127, kSmallestNormal = 0x1p-127;
};
/// E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; NaN becomes 6, as in ONNX (OCP's section 5.3.3 has none).
struct FormatE2M1 {
  static constexpr ByteFormat format() { return {1, 1, 0x08, 0x07, 0x07, 0x07, false, true, false}; }
  static constexpr double kLargest = 6, kSmallestNormal = 1;
};

/// A float of one byte, stored as bits; nothing computes in it.
template <class Format> struct Float8 {
  uint8_t bits = 0;
  Float8() = default;
  /// Saturating.
  explicit inline Float8(float v) : Float8(fromFloat(v, true)) {}
  /// As byteOf.
  static inline Float8 fromFloat(float v, bool saturate);
  explicit inline operator float() const;
  static constexpr ByteFormat format() { return Format::format(); }
};
using float8_e4m3fn = Float8<FormatE4M3FN>;
using float8_e5m2 = Float8<FormatE5M2>;
using float8_e4m3fnuz = Float8<FormatE4M3FNUZ>;
using float8_e5m2fnuz = Float8<FormatE5M2FNUZ>;
using float8_e8m0 = Float8<FormatE8M0>;
using float4_e2m1 = Float8<FormatE2M1>;

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

/// To nearest, ties to even. What is too large, infinity included, becomes the largest number of its sign when
/// saturating, else what the format says. To E8M0: the least power of two that is not smaller than the magnitude;
/// infinity becomes NaN, as in ONNX.
inline uint8_t byteOf(const ByteFormat &f, float v, bool saturate) {
  const uint32_t x = detail::floatToBits(v), mag = x & 0x7fffffffu;
  if (f.sign == 0) {
    if (mag >= 0x7f800000u) return f.nan;
    if (mag < 0x00800000u) return mag > 0x00400000u; // 2^-127 is a subnormal float
    const uint32_t up = (mag + 0x7fffffu) >> 23;
    return static_cast<uint8_t>(up > f.largest ? (saturate ? f.largest : f.tooLarge) : up);
  }
  const uint32_t sign = x >> 31 ? f.sign : 0u;
  if (mag > 0x7f800000u) return static_cast<uint8_t>(f.nan | (f.nanHasSign ? sign : 0u));
  const uint32_t shift = static_cast<uint32_t>(23 - f.mantissa);
  const uint32_t rebias = static_cast<uint32_t>(127 - f.bias) << 23;
  // Added to a subnormal, this float has an ulp that is the format's smallest number.
  const uint32_t magic = static_cast<uint32_t>(127 + 24 - f.bias - f.mantissa) << 23;
  uint32_t code;
  if (mag < rebias + (1u << 23))
    code = detail::floatToBits(detail::bitsToFloat(mag) + detail::bitsToFloat(magic)) - magic;
  else
    code = (mag - rebias + (1u << (shift - 1)) - 1u + ((mag >> shift) & 1u)) >> shift;
  if (code > f.largest) code = saturate ? f.largest : f.tooLarge;
  return static_cast<uint8_t>(code == 0 && !f.hasNegativeZero ? 0u : sign | code);
}
/// The number that a byte is: exact.
inline float floatOf(const ByteFormat &f, uint8_t byte) {
  if (f.sign == 0)
    return detail::bitsToFloat(byte == f.nan ? 0x7fc00000u
                               : byte == 0   ? 0x00400000u
                                             : static_cast<uint32_t>(byte) << 23);
  const uint32_t shift = static_cast<uint32_t>(23 - f.mantissa);
  const uint32_t sign = byte & f.sign ? 0x80000000u : 0u, code = byte & (f.sign - 1u);
  if (!f.hasNegativeZero && sign && code == 0) return detail::bitsToFloat(0x7fc00000u);
  if (code > f.largest)
    return detail::bitsToFloat(sign | (f.hasInfinity && code == f.tooLarge ? 0x7f800000u : 0x7fc00000u));
  if (code >> f.mantissa == 0) { // code times the smallest number, 2^(1 - bias - mantissa)
    const uint32_t smallest = static_cast<uint32_t>(128 - f.bias - f.mantissa) << 23;
    return detail::bitsToFloat(sign | detail::floatToBits(static_cast<float>(code) * detail::bitsToFloat(smallest)));
  }
  return detail::bitsToFloat(sign | ((code << shift) + (static_cast<uint32_t>(127 - f.bias) << 23)));
}

template <class Format> Float8<Format> Float8<Format>::fromFloat(float v, bool saturate) {
  Float8 result;
  result.bits = byteOf(Format::format(), v, saturate);
  return result;
}
template <class Format> Float8<Format>::operator float() const { return floatOf(Format::format(), bits); }

/// What is known of a floating type: stored bits of the mantissa, the largest finite and the smallest normal number.
/// And how far from a reference its results may be where nobody says otherwise: |x - e| <= atol + rtol |e|.
template <class T> struct FloatLimits;
template <> struct FloatLimits<float> {
  static constexpr int mantissa = 23;
  static constexpr double largest = double(FLT_MAX), smallestNormal = double(FLT_MIN);
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
  static constexpr double largest = 0x1.fep127, smallestNormal = double(FLT_MIN);
  static constexpr double rtol = 1.6e-2, atol = 1e-2;
};
template <class Format> struct FloatLimits<Float8<Format>> {
  static constexpr int mantissa = Format::format().mantissa;
  static constexpr double largest = Format::kLargest, smallestNormal = Format::kSmallestNormal;
  static constexpr double rtol = 0, atol = 0;
};

} // namespace opc
