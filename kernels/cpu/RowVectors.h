// Vectors of 8 and of 16 f32 behind one set of names. Loops over them add in lanes whose number does not depend on the
// processor: 16 are two vectors of AVX2 or one of AVX-512, with the same bits.
//
// Sources that are compiled for several levels include this. So nothing here may leave a function behind whose name
// another level has, too: all are inlined, and the namespace has the level's name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <immintrin.h>

#define OPC_LANES [[gnu::always_inline]] static inline

namespace opc::cpu {
#ifdef __AVX512F__
inline namespace v4 {
#else
inline namespace v3 {
#endif

using F8 = __m256;

OPC_LANES void load(const float *p, F8 *v) { *v = _mm256_loadu_ps(p); }
OPC_LANES void store(float *p, F8 v) { _mm256_storeu_ps(p, v); }
OPC_LANES void splat(float x, F8 *v) { *v = _mm256_set1_ps(x); }
OPC_LANES F8 add(F8 a, F8 b) { return _mm256_add_ps(a, b); }
OPC_LANES F8 sub(F8 a, F8 b) { return _mm256_sub_ps(a, b); }
OPC_LANES F8 mul(F8 a, F8 b) { return _mm256_mul_ps(a, b); }
OPC_LANES F8 fma(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a, b, c); }
/// c - a b.
OPC_LANES F8 fnma(F8 a, F8 b, F8 c) { return _mm256_fnmadd_ps(a, b, c); }
/// The larger one; `b` when either is NaN.
OPC_LANES F8 max(F8 a, F8 b) { return _mm256_max_ps(a, b); }
OPC_LANES F8 min(F8 a, F8 b) { return _mm256_min_ps(a, b); }
/// To a whole number, ties to even.
OPC_LANES F8 round(F8 a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/// 2^n for whole n in [-126, 127].
OPC_LANES F8 power2(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
/// a 2^n for whole n in [-126, 127].
OPC_LANES F8 timesPower2(F8 a, F8 n) { return mul(a, power2(_mm256_cvtps_epi32(n))); }
/// The same in two factors, so that n may be anything that exp gives; `a` is about 1, so that the first is exact.
OPC_LANES F8 scale2(F8 a, F8 n) {
  const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
  return mul(mul(a, power2(half)), power2(_mm256_sub_epi32(whole, half)));
}
/// 0 where x < limit, `a` elsewhere, NaN included.
OPC_LANES F8 unlessLess(F8 x, F8 limit, F8 a) { return _mm256_and_ps(a, _mm256_cmp_ps(x, limit, _CMP_NLT_UQ)); }
/// 0 where t is 0, `a` elsewhere, NaN included.
OPC_LANES F8 unlessZero(F8 t, F8 a) { return _mm256_and_ps(a, _mm256_cmp_ps(t, _mm256_setzero_ps(), _CMP_NEQ_UQ)); }
/// The first n lanes.
OPC_LANES __m256i firstLanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
/// The first n lanes, the others 0.
OPC_LANES F8 loadFirst(const float *p, int64_t n) { return _mm256_maskload_ps(p, firstLanes(n)); }
OPC_LANES void storeFirst(float *p, F8 v, int64_t n) { _mm256_maskstore_ps(p, firstLanes(n), v); }
OPC_LANES F8 keepFirst(F8 v, int64_t n) { return _mm256_and_ps(v, _mm256_castsi256_ps(firstLanes(n))); }
OPC_LANES float sum(F8 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
OPC_LANES float largest(F8 v) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

#ifdef __AVX512F__
using F16 = __m512;

OPC_LANES void load(const float *p, F16 *v) { *v = _mm512_loadu_ps(p); }
OPC_LANES void store(float *p, F16 v) { _mm512_storeu_ps(p, v); }
OPC_LANES void splat(float x, F16 *v) { *v = _mm512_set1_ps(x); }
OPC_LANES F16 add(F16 a, F16 b) { return _mm512_add_ps(a, b); }
OPC_LANES F16 sub(F16 a, F16 b) { return _mm512_sub_ps(a, b); }
OPC_LANES F16 mul(F16 a, F16 b) { return _mm512_mul_ps(a, b); }
OPC_LANES F16 fma(F16 a, F16 b, F16 c) { return _mm512_fmadd_ps(a, b, c); }
OPC_LANES F16 fnma(F16 a, F16 b, F16 c) { return _mm512_fnmadd_ps(a, b, c); }
OPC_LANES F16 max(F16 a, F16 b) { return _mm512_max_ps(a, b); }
OPC_LANES F16 min(F16 a, F16 b) { return _mm512_min_ps(a, b); }
OPC_LANES F16 round(F16 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// One instruction, which rounds once as the last product of the others does.
OPC_LANES F16 timesPower2(F16 a, F16 n) { return _mm512_scalef_ps(a, n); }
OPC_LANES F16 scale2(F16 a, F16 n) { return _mm512_scalef_ps(a, n); }
OPC_LANES F16 unlessLess(F16 x, F16 limit, F16 a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), a);
}
OPC_LANES F16 unlessZero(F16 t, F16 a) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(t, _mm512_setzero_ps(), _CMP_NEQ_UQ), a);
}
OPC_LANES F8 lower(F16 v) { return _mm512_castps512_ps256(v); }
OPC_LANES F8 upper(F16 v) { return _mm512_extractf32x8_ps(v, 1); }
#else
struct F16 {
  F8 a, b;
};

OPC_LANES void load(const float *p, F16 *v) { *v = {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
OPC_LANES void store(float *p, F16 v) {
  store(p, v.a);
  store(p + 8, v.b);
}
OPC_LANES void splat(float x, F16 *v) { *v = {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
OPC_LANES F16 add(F16 a, F16 b) { return {add(a.a, b.a), add(a.b, b.b)}; }
OPC_LANES F16 sub(F16 a, F16 b) { return {sub(a.a, b.a), sub(a.b, b.b)}; }
OPC_LANES F16 mul(F16 a, F16 b) { return {mul(a.a, b.a), mul(a.b, b.b)}; }
OPC_LANES F16 fma(F16 a, F16 b, F16 c) { return {fma(a.a, b.a, c.a), fma(a.b, b.b, c.b)}; }
OPC_LANES F16 fnma(F16 a, F16 b, F16 c) { return {fnma(a.a, b.a, c.a), fnma(a.b, b.b, c.b)}; }
OPC_LANES F16 max(F16 a, F16 b) { return {max(a.a, b.a), max(a.b, b.b)}; }
OPC_LANES F16 min(F16 a, F16 b) { return {min(a.a, b.a), min(a.b, b.b)}; }
OPC_LANES F16 round(F16 a) { return {round(a.a), round(a.b)}; }
OPC_LANES F16 timesPower2(F16 a, F16 n) { return {timesPower2(a.a, n.a), timesPower2(a.b, n.b)}; }
OPC_LANES F16 scale2(F16 a, F16 n) { return {scale2(a.a, n.a), scale2(a.b, n.b)}; }
OPC_LANES F16 unlessLess(F16 x, F16 limit, F16 a) {
  return {unlessLess(x.a, limit.a, a.a), unlessLess(x.b, limit.b, a.b)};
}
OPC_LANES F16 unlessZero(F16 t, F16 a) { return {unlessZero(t.a, a.a), unlessZero(t.b, a.b)}; }
OPC_LANES F8 lower(F16 v) { return v.a; }
OPC_LANES F8 upper(F16 v) { return v.b; }
#endif

template <class V> OPC_LANES V loaded(const float *p) {
  V v;
  load(p, &v);
  return v;
}
template <class V> OPC_LANES V all(float x) {
  V v;
  splat(x, &v);
  return v;
}

/// exp(x) within 2 units in the last place for x in [-87.3, 88.7]; 0 below -103.9, infinity above 88.73, NaN for NaN.
/// x = n ln 2 + r with |r| <= ln 2 / 2, and a minimax polynomial of degree 6 for exp(r) (Cephes, expf).
template <class V> OPC_LANES V vectorExp(V x) {
  // min and max give their second operand when either is NaN: x goes second to keep a NaN.
  const V clamped = min(all<V>(88.8f), max(all<V>(-104.0f), x));
  const V n = round(mul(clamped, all<V>(1.44269504088896341f)));
  V r = fnma(n, all<V>(0.693359375f), clamped);
  r = fnma(n, all<V>(-2.12194440e-4f), r);
  V p = all<V>(1.9875691500e-4f);
  p = fma(p, r, all<V>(1.3981999507e-3f));
  p = fma(p, r, all<V>(8.3334519073e-3f));
  p = fma(p, r, all<V>(4.1665795894e-2f));
  p = fma(p, r, all<V>(1.6666665459e-1f));
  p = fma(p, r, all<V>(5.0000001201e-1f));
  p = fma(mul(r, r), p, add(r, all<V>(1.0f)));
  return scale2(p, n); // in two factors: subnormal results and n = 128 come out right
}

/// exp(x) for x <= 0, as softmax needs it: within 2 units in the last place where the result is a normal number, 0
/// where it would be smaller; NaN for NaN. Cheaper than vectorExp by the handling of the ends.
template <class V> OPC_LANES V vectorExpNonPositive(V x) {
  const V least = all<V>(-87.33f);
  const V clamped = max(least, x); // x second: NaN stays
  const V n = round(mul(clamped, all<V>(1.44269504088896341f)));
  V r = fnma(n, all<V>(0.693359375f), clamped);
  r = fnma(n, all<V>(-2.12194440e-4f), r);
  // Two short chains instead of one long one.
  const V r2 = mul(r, r);
  const V high = fma(fma(all<V>(1.9875691500e-4f), r, all<V>(1.3981999507e-3f)), r2,
                     fma(all<V>(8.3334519073e-3f), r, all<V>(4.1665795894e-2f)));
  const V low = fma(all<V>(1.6666665459e-1f), r, all<V>(5.0000001201e-1f));
  const V p = fma(fma(high, r2, low), r2, add(r, all<V>(1.0f)));
  return unlessLess(x, least, timesPower2(p, n));
}

} // namespace v3 or v4
} // namespace opc::cpu
