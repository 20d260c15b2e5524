// exp for AVX2 vectors of f32, and vectorised row reductions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SimdTypes.h"

#include <algorithm>
#include <cmath>

namespace opc::cpu {

/// exp(x) within 2 units in the last place for x in [-87.3, 88.7]; 0 below -103.9, infinity above 88.73, NaN for NaN.
/// x = n ln 2 + r with |r| <= ln 2 / 2, and a minimax polynomial of degree 6 for exp(r) (Cephes, expf).
inline __m256 simdExp(__m256 x) {
  const __m256 lo = _mm256_set1_ps(-104.0f), hi = _mm256_set1_ps(88.8f);
  // min and max give their second operand when either is NaN: x goes second to keep a NaN.
  const __m256 clamped = _mm256_min_ps(hi, _mm256_max_ps(lo, x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.44269504088896341f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), clamped);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
  p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
  // 2^n in two factors, so that subnormal results and n = 128 come out right.
  const __m256i ni = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(ni, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 s0 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 s1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(ni, half), bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(p, s0), s1);
}

/// exp(x) for x <= 0, as softmax needs it: within 2 units in the last place where the result is a normal number, 0
/// where it would be smaller; NaN for NaN. Cheaper than simdExp by the handling of the ends.
inline __m256 simdExpNonPositive(__m256 x) {
  const __m256 least = _mm256_set1_ps(-87.33f);
  const __m256 clamped = _mm256_max_ps(least, x); // x second: NaN stays
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.44269504088896341f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), clamped);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
  // Two short chains instead of one long one.
  const __m256 r2 = _mm256_mul_ps(r, r);
  const __m256 high =
      _mm256_fmadd_ps(_mm256_fmadd_ps(_mm256_set1_ps(1.9875691500e-4f), r, _mm256_set1_ps(1.3981999507e-3f)), r2,
                      _mm256_fmadd_ps(_mm256_set1_ps(8.3334519073e-3f), r, _mm256_set1_ps(4.1665795894e-2f)));
  const __m256 low = _mm256_fmadd_ps(_mm256_set1_ps(1.6666665459e-1f), r, _mm256_set1_ps(5.0000001201e-1f));
  const __m256 p = _mm256_fmadd_ps(_mm256_fmadd_ps(high, r2, low), r2, _mm256_add_ps(r, _mm256_set1_ps(1.0f)));
  const __m256 scale =
      _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
  // Unordered comparison: true for NaN.
  return _mm256_and_ps(_mm256_mul_ps(p, scale), _mm256_cmp_ps(x, least, _CMP_NLT_UQ));
}

/// The largest of n >= 1 values; NaN may or may not be seen.
template <class T> T rowMax(const T *x, int64_t n) {
  using S = Simd<T>;
  constexpr int W = S::kWidth;
  T m = x[0];
  int64_t i = 0;
  if (n >= W) {
    auto v = S::load(x), v1 = v, v2 = v, v3 = v;
    for (i = 0; i + 4 * W <= n; i += 4 * W) {
      v = S::max(v, S::load(x + i));
      v1 = S::max(v1, S::load(x + i + W));
      v2 = S::max(v2, S::load(x + i + 2 * W));
      v3 = S::max(v3, S::load(x + i + 3 * W));
    }
    v = S::max(S::max(v, v1), S::max(v2, v3));
    for (; i + W <= n; i += W) v = S::max(v, S::load(x + i));
    T lanes[W];
    S::store(lanes, v);
    m = *std::max_element(lanes, lanes + W);
  }
  for (; i < n; ++i) m = std::max(m, x[i]);
  return m;
}

/// The sum of f(x[i]), four vectors at a time; f maps vectors to vectors.
template <class T, class F> T rowSum(const T *x, int64_t n, F f) {
  using S = Simd<T>;
  constexpr int W = S::kWidth;
  typename S::V s0 = S::zero(), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) {
    s0 = S::add(s0, f(S::load(x + i)));
    s1 = S::add(s1, f(S::load(x + i + W)));
    s2 = S::add(s2, f(S::load(x + i + 2 * W)));
    s3 = S::add(s3, f(S::load(x + i + 3 * W)));
  }
  for (; i + W <= n; i += W) s0 = S::add(s0, f(S::load(x + i)));
  if (i < n) { // the lanes beyond the end add nothing, whatever f makes of zero
    T lanes[W];
    S::store(lanes, f(S::load(x + i, S::mask(n - i))));
    T tail[W] = {};
    for (int64_t j = 0; j < n - i; ++j) tail[j] = lanes[j];
    s1 = S::add(s1, S::load(tail));
  }
  return S::sum(S::add(S::add(s0, s1), S::add(s2, s3)));
}

/// Rows per thread so that a piece is worth waking a thread for.
inline int64_t rowGrain(int64_t rowLength, int64_t elements = 8192) {
  return std::max<int64_t>(1, elements / std::max<int64_t>(rowLength, 1));
}

} // namespace opc::cpu
