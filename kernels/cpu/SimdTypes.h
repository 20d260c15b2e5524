// AVX2 vectors of float, double and int32_t behind one set of names, for loops written once over the element type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace opc::cpu {

template <class T> struct Simd;

template <> struct Simd<float> {
  using V = __m256;
  using M = __m256i;
  static constexpr int kWidth = 8;
  static V zero() { return _mm256_setzero_ps(); }
  static V set1(float x) { return _mm256_set1_ps(x); }
  static V load(const float *p) { return _mm256_loadu_ps(p); }
  static void store(float *p, V v) { _mm256_storeu_ps(p, v); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V add(V a, V b) { return _mm256_add_ps(a, b); }
  static V sub(V a, V b) { return _mm256_sub_ps(a, b); }
  static V mul(V a, V b) { return _mm256_mul_ps(a, b); }
  /// The larger one; `b` when either is NaN.
  static V max(V a, V b) { return _mm256_max_ps(a, b); }
  static V min(V a, V b) { return _mm256_min_ps(a, b); }
  /// The first n lanes.
  static M mask(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static V load(const float *p, M m) { return _mm256_maskload_ps(p, m); }
  static void store(float *p, V v, M m) { _mm256_maskstore_ps(p, m, v); }
  static float sum(V v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
};

template <> struct Simd<double> {
  using V = __m256d;
  using M = __m256i;
  static constexpr int kWidth = 4;
  static V zero() { return _mm256_setzero_pd(); }
  static V set1(double x) { return _mm256_set1_pd(x); }
  static V load(const double *p) { return _mm256_loadu_pd(p); }
  static void store(double *p, V v) { _mm256_storeu_pd(p, v); }
  static V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static V add(V a, V b) { return _mm256_add_pd(a, b); }
  static V sub(V a, V b) { return _mm256_sub_pd(a, b); }
  static V mul(V a, V b) { return _mm256_mul_pd(a, b); }
  static V max(V a, V b) { return _mm256_max_pd(a, b); }
  static V min(V a, V b) { return _mm256_min_pd(a, b); }
  static M mask(int64_t n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
  static V load(const double *p, M m) { return _mm256_maskload_pd(p, m); }
  static void store(double *p, V v, M m) { _mm256_maskstore_pd(p, m, v); }
  static double sum(V v) {
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
  }
};

template <> struct Simd<int32_t> {
  using V = __m256i;
  using M = __m256i;
  static constexpr int kWidth = 8;
  static V zero() { return _mm256_setzero_si256(); }
  static V set1(int32_t x) { return _mm256_set1_epi32(x); }
  static V load(const int32_t *p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)); }
  static void store(int32_t *p, V v) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), v); }
  static V fma(V a, V b, V c) { return _mm256_add_epi32(_mm256_mullo_epi32(a, b), c); }
  static V add(V a, V b) { return _mm256_add_epi32(a, b); }
  static V mul(V a, V b) { return _mm256_mullo_epi32(a, b); }
  static M mask(int64_t n) { return Simd<float>::mask(n); }
  static V load(const int32_t *p, M m) { return _mm256_maskload_epi32(p, m); }
  static void store(int32_t *p, V v, M m) { _mm256_maskstore_epi32(p, m, v); }
  static int32_t sum(V v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
  }
};

} // namespace opc::cpu
