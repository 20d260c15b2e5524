// exp for AVX2 vectors of f32, and vectorised row reductions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RowVectors.h"
#include "SimdTypes.h"

#include <algorithm>
#include <cmath>

namespace opc::cpu {

inline __m256 simdExp(__m256 x) { return vectorExp(x); }
inline __m256 simdExpNonPositive(__m256 x) { return vectorExpNonPositive(x); }

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
