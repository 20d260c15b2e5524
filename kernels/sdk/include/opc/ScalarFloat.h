// Branch-free single precision functions: polynomials that compilers vectorise, and so no calls into libm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"

#include <cmath>
#include <limits>

#if defined(__CUDACC__)
#define OPC_HOST_DEVICE __host__ __device__
#else
#define OPC_HOST_DEVICE
#endif
// A call inside a loop would keep it from being vectorised.
#if defined(__GNUC__)
#define OPC_SCALAR_INLINE __attribute__((always_inline)) inline
#else
#define OPC_SCALAR_INLINE inline
#endif

/// Host implementations in f32. The bounds below are the largest errors seen in tests/unit/ScalarTest.cpp against libm
/// in f64. All of them take every float, subnormals, infinities and NaN included. Coefficients and their errors:
/// kernels/scalar/fit_polynomials.py. Written without branches: `?:` on values becomes a blend.
namespace opc::scalar::f32 {

OPC_SCALAR_INLINE uint32_t toBits(float x) { return __builtin_bit_cast(uint32_t, x); }
OPC_SCALAR_INLINE float fromBits(uint32_t b) { return __builtin_bit_cast(float, b); }
OPC_SCALAR_INLINE uint64_t toBits(double x) { return __builtin_bit_cast(uint64_t, x); }
OPC_SCALAR_INLINE double doubleFromBits(uint64_t b) { return __builtin_bit_cast(double, b); }

// a * b + c; fused where the target has the instruction, so that no build calls a software fma in a loop.
OPC_SCALAR_INLINE float madd(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
OPC_SCALAR_INLINE double madd(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Constants, because a GPU function may not call numeric_limits.
constexpr double kInf64 = std::numeric_limits<double>::infinity();
constexpr double kNan64 = std::numeric_limits<double>::quiet_NaN();

// Adding 1.5 * 2^23 leaves the nearest integer in the low mantissa bits; no float-to-int conversion, hence no
// undefined behaviour for NaN or large values.
constexpr float kRound = 12582912.0f;
constexpr double kRoundDouble = 6755399441055744.0; // 1.5 * 2^52

// 2^n for n in [-126, 127], as n + 127 in the exponent field.
OPC_SCALAR_INLINE float powerOfTwo(int32_t n) { return fromBits(static_cast<uint32_t>(n + 127) << 23); }

struct Reduced {
  float remainder; // in [-ln2/2, ln2/2]
  int32_t exponent;
};
// x = exponent * ln2 + remainder. The high part of ln2 has 10 bits, so its product is exact without fma.
OPC_SCALAR_INLINE Reduced reduceByLn2(float x) {
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = madd(n, 2.12194440e-4f, madd(n, -0.693359375f, x));
  return {r, static_cast<int32_t>(toBits(shifted) - toBits(kRound))};
}
// e^r - 1 for |r| <= ln2/2.
OPC_SCALAR_INLINE float expm1Reduced(float r) {
  float p = madd(0.00139491819f, r, 0.0083683189f);
  p = madd(p, r, 0.041666232f);
  p = madd(p, r, 0.166665256f);
  p = madd(p, r, 0.5f);
  return madd(p * r, r, r);
}
// v * 2^n in two steps, each of which has a normal factor: subnormal results and overflow come out rounded right.
OPC_SCALAR_INLINE float scale(float v, int32_t n) {
  const int32_t half = n >> 1;
  return v * powerOfTwo(half) * powerOfTwo(n - half);
}

/// 1 ulp.
OPC_SCALAR_INLINE float exp(float x) {
  float c = x > 89.0f ? 89.0f : x; // comparisons in this order let NaN through
  c = c < -104.0f ? -104.0f : c;
  const Reduced t = reduceByLn2(c);
  return scale(1.0f + expm1Reduced(t.remainder), t.exponent);
}

// 2^f for |f| <= 1/2.
OPC_SCALAR_INLINE float exp2Reduced(float f) {
  float p = madd(0.000154749199f, f, 0.00133978378f);
  p = madd(p, f, 0.00961801037f);
  p = madd(p, f, 0.0555033609f);
  p = madd(p, f, 0.240226507f);
  p = madd(p, f, 0.693147182f);
  return madd(p, f, 1.0f);
}
/// 1 ulp.
OPC_SCALAR_INLINE float exp2(float x) {
  float c = x > 129.0f ? 129.0f : x;
  c = c < -151.0f ? -151.0f : c;
  const float shifted = c + kRound;
  return scale(exp2Reduced(c - (shifted - kRound)), static_cast<int32_t>(toBits(shifted) - toBits(kRound)));
}

/// 2 ulp.
OPC_SCALAR_INLINE float expm1(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -18.0f ? -18.0f : c; // rounds to -1 from -17.4 on
  const Reduced t = reduceByLn2(c);
  const float q = expm1Reduced(t.remainder);
  const float s = powerOfTwo(t.exponent - 1); // half the factor, so that 2^128 is no special case
  const float r = madd(s, q, s - 0.5f) * 2.0f;
  return x == 0.0f ? x : r; // keeps -0
}

struct Split {
  float fraction; // m - 1, with m in [sqrt(1/2), sqrt(2))
  float exponent;
};
// x = m * 2^exponent for positive finite x.
OPC_SCALAR_INLINE Split splitForLog(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const float y = subnormal ? x * 8388608.0f : x;
  const uint32_t b = toBits(y) - 0x3f3504f3u; // minus the bits of sqrt(1/2)
  const int32_t e = static_cast<int32_t>(b) >> 23;
  const float m = fromBits((b & 0x007fffffu) + 0x3f3504f3u);
  return {m - 1.0f, static_cast<float>(e) - (subnormal ? 23.0f : 0.0f)};
}
// log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1].
OPC_SCALAR_INLINE float log1pTail(float f) {
  float p = madd(0.0696771219f, f, -0.117089719f);
  p = madd(p, f, 0.118035696f);
  p = madd(p, f, -0.123949327f);
  p = madd(p, f, 0.142304316f);
  p = madd(p, f, -0.166689411f);
  p = madd(p, f, 0.200015545f);
  p = madd(p, f, -0.249999851f);
  p = madd(p, f, 0.333333224f);
  const float s = f * f;
  return madd(p * f, s, -0.5f * s);
}
// What log gives outside the positive finite numbers.
OPC_SCALAR_INLINE float logEdges(float x, float r) {
  r = x == kInf ? x : r;
  r = x == 0.0f ? -kInf : r;
  return x >= 0.0f ? r : (x < 0.0f ? kNan : x);
}

/// 1 ulp.
OPC_SCALAR_INLINE float log(float x) {
  const Split t = splitForLog(x);
  const float tail = madd(t.exponent, -2.12194440e-4f, log1pTail(t.fraction));
  return logEdges(x, madd(t.exponent, 0.693359375f, t.fraction + tail));
}
/// 2 ulp; exact for powers of two.
OPC_SCALAR_INLINE float log2(float x) {
  const Split t = splitForLog(x);
  const float tail = log1pTail(t.fraction);
  // log2(e) = 1.4426950 in two parts; the leading one has 11 bits.
  const float low = madd(t.fraction + tail, -5.5507352e-6f, tail * 1.44270062f);
  return logEdges(x, madd(t.fraction, 1.44270062f, low) + t.exponent);
}
/// 2 ulp.
OPC_SCALAR_INLINE float log10(float x) {
  const Split t = splitForLog(x);
  const float tail = log1pTail(t.fraction);
  const float low = madd(t.exponent, 4.60503907e-6f, tail * 0.434294482f); // log10(2) = 0.301025391 + 4.605e-6
  return logEdges(x, madd(t.exponent, 0.301025391f, madd(t.fraction, 0.434294482f, low)));
}
/// 2 ulp.
OPC_SCALAR_INLINE float log1p(float x) {
  const float u = 1.0f + x;
  const float lost = x - (u - 1.0f); // what rounding took from u
  const Split t = splitForLog(u);
  const float correction = lost / u;
  const float tail = madd(t.exponent, -2.12194440e-4f, log1pTail(t.fraction) + correction);
  const float r = madd(t.exponent, 0.693359375f, t.fraction + tail);
  const float edged = logEdges(u, r);
  return x == 0.0f ? x : edged;
}

/// 1 / (1 + e^-x), 3 ulp, also where the result is subnormal.
OPC_SCALAR_INLINE float sigmoid(float x) {
  const float e = f32::exp(x > 0.0f ? -x : x);
  const float r = 1.0f / (1.0f + e);
  return x > 0.0f ? r : e * r;
}

/// 3 ulp.
OPC_SCALAR_INLINE float tanh(float x) {
  const float a = fromBits(toBits(x) & 0x7fffffffu);
  const float c = a > 9.2f ? 9.2f : a; // 1 after rounding from 9.02 on
  const Reduced t = reduceByLn2(2.0f * c);
  const float q = expm1Reduced(t.remainder);
  const float s = powerOfTwo(t.exponent);
  const float e = madd(s, q, s - 1.0f); // e^2a - 1
  return fromBits(toBits(e / (e + 2.0f)) | (toBits(x) & 0x80000000u));
}

/// 2 ulp.
OPC_SCALAR_INLINE float erf(float x) {
  const float a = fromBits(toBits(x) & 0x7fffffffu);
  const float s = x * x;
  // |x| below 0.92: x + x * P(x^2).
  float p = madd(-0.00059768965f, s, 0.00499098096f);
  p = madd(p, s, -0.0267655682f);
  p = madd(p, s, 0.112818025f);
  p = madd(p, s, -0.376124948f);
  p = madd(p, s, 0.128379151f);
  const float small = madd(p, x, x);
  // Above: 1 - 2^(a * Q(a)).
  const float c = a > 4.0f ? 4.0f : a; // 1 after rounding from 3.84 on
  float q = madd(-2.28667141e-5f, c, 0.000529092329f);
  q = madd(q, c, -0.00549917668f);
  q = madd(q, c, 0.0347698368f);
  q = madd(q, c, -0.153802857f);
  q = madd(q, c, -0.916024208f);
  q = madd(q, c, -1.62836659f);
  const float y = c * q; // -26 at least
  const float shifted = y + kRound;
  const float e =
      exp2Reduced(y - (shifted - kRound)) * powerOfTwo(static_cast<int32_t>(toBits(shifted) - toBits(kRound)));
  const float large = fromBits(toBits(1.0f - e) | (toBits(x) & 0x80000000u));
  return a >= 0.92f ? large : small;
}

struct Angle {
  double remainder;  // in [-pi/4, pi/4] and a little more
  uint32_t quadrant; // modulo 2^32
};
// x = quadrant * pi/2 + remainder, for every finite float. Two-word pi/2 with fma covers |x| < 2^45. A larger number is
// y * 2^k with an integer y < 2^45, so y * (2^k mod 2 pi), a two-word product, is the same angle.
OPC_SCALAR_INLINE Angle reduceByHalfPi(float x) {
  const uint32_t m = toBits(x) & 0x7fffffffu;
  const bool e45 = m >= 0x56000000u, e67 = m >= 0x61000000u, e89 = m >= 0x6c000000u, e111 = m >= 0x77000000u;
  const double down = e111 ? 0x1p-88 : e89 ? 0x1p-66 : e67 ? 0x1p-44 : e45 ? 0x1p-22 : 1.0;
  const double high = e111  ? -0.2825111682257627
                      : e89 ? -0.09440280299163137
                      : e67 ? 0.4008153755084947
                      : e45 ? 1.3473041101248473
                            : 1.0;
  const double low = e111  ? 8.835098824050243e-18
                     : e89 ? 1.8945303711101e-18
                     : e67 ? 2.0728621145807084e-17
                     : e45 ? 8.79909131076527e-17
                           : 0.0;
  const double y = static_cast<double>(x) * down;
  const double z = y * high;
  const double rest = __builtin_fma(y, high, -z) + y * low;
  const double shifted = z * 0.63661977236758134 + kRoundDouble;
  const double n = shifted - kRoundDouble;
  const double r = __builtin_fma(n, -6.123233995736766e-17, __builtin_fma(n, -1.5707963267948966, z)) + rest;
  return {r, static_cast<uint32_t>(toBits(shifted))};
}
OPC_SCALAR_INLINE double sinReduced(double r) {
  const double s = r * r;
  double p = madd(-2.4771951281493407e-08, s, 2.755554956090003e-06);
  p = madd(p, s, -0.00019841265035952188);
  p = madd(p, s, 0.008333333328280833);
  p = madd(p, s, -0.1666666666665498);
  return madd(p * s, r, r);
}
OPC_SCALAR_INLINE double cosReduced(double r) {
  const double s = r * r;
  double p = madd(2.067768593446673e-09, s, -2.755607903415592e-07);
  p = madd(p, s, 2.4801584041390918e-05);
  p = madd(p, s, -0.0013888888885737346);
  p = madd(p, s, 0.04166666666666155);
  return madd(s * s, p, 1.0 - 0.5 * s);
}
OPC_SCALAR_INLINE float sinOrCos(float x, uint32_t shift) {
  const Angle t = reduceByHalfPi(x);
  const uint32_t quadrant = t.quadrant + shift;
  const double v = (quadrant & 1u) ? cosReduced(t.remainder) : sinReduced(t.remainder);
  const float r = static_cast<float>(v);
  return fromBits(toBits(r) ^ ((quadrant & 2u) << 30));
}
/// 1 ulp over all floats. Infinities give NaN.
OPC_SCALAR_INLINE float sin(float x) { return x == 0.0f ? x : sinOrCos(x, 0); }
/// 1 ulp over all floats.
OPC_SCALAR_INLINE float cos(float x) { return sinOrCos(x, 1); }
/// 1 ulp over all floats.
OPC_SCALAR_INLINE float tan(float x) {
  const Angle t = reduceByHalfPi(x);
  const double s = sinReduced(t.remainder), c = cosReduced(t.remainder);
  const bool odd = (t.quadrant & 1u) != 0;
  const float r = static_cast<float>((odd ? -c : s) / (odd ? s : c));
  return x == 0.0f ? x : r;
}

/// 3 ulp.
OPC_SCALAR_INLINE float sinh(float x) {
  // With e = expm1(|x|): (e + e / (e + 1)) / 2, in halves where e^|x| overflows but sinh does not.
  const float a = fromBits(toBits(x) & 0x7fffffffu);
  const float e = f32::expm1(a);
  const float direct = 0.5f * (e + e / (e + 1.0f));
  const float h = f32::exp(0.5f * a);
  const float r = a > 88.0f ? (0.5f * h) * h : direct;
  return fromBits(toBits(r) | (toBits(x) & 0x80000000u));
}
/// 3 ulp.
OPC_SCALAR_INLINE float cosh(float x) {
  const float a = fromBits(toBits(x) & 0x7fffffffu);
  const float h = f32::exp(0.5f * a);
  const float e = h * h;
  return a > 88.0f ? (0.5f * h) * h : 0.5f * (e + 1.0f / e);
}

/// x^y with the special cases of C's pow, computed in f64; 1 ulp.
OPC_SCALAR_INLINE float pow(float x, float y) {
  const float a = fromBits(toBits(x) & 0x7fffffffu);
  // log2(a) = exponent + log2(m), m in [sqrt(1/2), sqrt(2)); subnormal floats are normal doubles.
  const uint64_t b = toBits(static_cast<double>(a)) - 0x3fe6a09e667f3bcdull;
  const uint64_t biased = (b >> 52) + 2048; // two's complement of the exponent, made positive
  const double exponent = doubleFromBits(0x4330000000000000ull | (biased & 0xfffull)) - (4503599627370496.0 + 2048.0);
  const double m = doubleFromBits((b & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull);
  const double z = (m - 1.0) / (m + 1.0), s = z * z;
  double p = madd(0.24296973433976818, s, 0.2614397508046564);
  p = madd(p, s, 0.32061652916981614);
  p = madd(p, s, 0.41219840001698504);
  p = madd(p, s, 0.5770780172595028);
  p = madd(p, s, 0.9617966939243034);
  p = madd(p, s, 2.885390081777927);
  const double lg = madd(p, z, exponent);
  double t = lg * static_cast<double>(y);
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  const double shifted = t + kRoundDouble;
  const double f = t - (shifted - kRoundDouble);
  double q = madd(1.3262565701202773e-06, f, 1.5308228789879667e-05);
  q = madd(q, f, 0.0001540342094094314);
  q = madd(q, f, 0.0013333459426981742);
  q = madd(q, f, 0.009618129209274026);
  q = madd(q, f, 0.05550410928635931);
  q = madd(q, f, 0.2402265069561242);
  q = madd(q, f, 0.6931471805508074);
  const double two = doubleFromBits((toBits(shifted) - toBits(kRoundDouble) + 1023ull) << 52);
  float r = static_cast<float>(madd(q, f, 1.0) * two);
  // a is 0 or infinite: 0 or infinity, by the sign of y.
  r = a == 0.0f ? (y < 0.0f ? kInf : 0.0f) : r;
  r = a == kInf ? (y < 0.0f ? 0.0f : kInf) : r;
  // An infinite y: t is infinite with the sign of log2(a) * y, or NaN for a = 1, where the result is 1.
  const float absY = fromBits(toBits(y) & 0x7fffffffu);
  r = (absY == kInf && a == 1.0f) ? 1.0f : r;
  // A negative base: NaN unless y is an integer, negative when it is odd. Floats from 2^24 on are even.
  const float whole = __builtin_truncf(y);
  const float half = 0.5f * y;
  const bool isInteger = whole == y;
  const bool isOdd = isInteger && __builtin_truncf(half) != half && absY < 16777216.0f;
  const bool negative = (toBits(x) >> 31) != 0;
  r = (negative && isOdd) ? -r : r;
  r = (x < 0.0f && !isInteger && a != kInf) ? kNan : r;
  r = (x != x || y != y) ? x + y : r;
  return (x == 1.0f || y == 0.0f) ? 1.0f : r;
}

} // namespace opc::scalar::f32
