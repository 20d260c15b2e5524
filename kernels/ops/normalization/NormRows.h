// The loops over rows that the normalisations and their gradients share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SimdExp.h"

#include <cmath>
#include <cstdint>

namespace opc::ops::norm {

/// sum of a[i] * (b[i] - center).
template <class T> T centeredDot(const T *a, const T *b, T center, int64_t n) {
  using S = cpu::Simd<T>;
  constexpr int W = S::kWidth;
  const auto c = S::set1(center);
  auto s0 = S::zero(), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) {
    s0 = S::fma(S::load(a + i), S::sub(S::load(b + i), c), s0);
    s1 = S::fma(S::load(a + i + W), S::sub(S::load(b + i + W), c), s1);
  }
  T tail = 0;
  for (; i < n; ++i) tail += a[i] * (b[i] - center);
  return S::sum(S::add(s0, s1)) + tail;
}

template <class T> T rowTotal(const T *a, int64_t n) {
  return cpu::rowSum(a, n, [](typename cpu::Simd<T>::V v) { return v; });
}

/// sum of (a[i] - center)^2.
template <class T> T centeredSquares(const T *a, T center, int64_t n) {
  using S = cpu::Simd<T>;
  const auto c = S::set1(center);
  return cpu::rowSum(a, n, [&](typename S::V v) {
    const auto d = S::sub(v, c);
    return S::mul(d, d);
  });
}
/// 1 / sqrt(variance + epsilon), of the sum of squares over `count` elements.
template <class T> T inverseDeviation(double squares, double count, T epsilon) {
  return T(1) / std::sqrt(static_cast<T>(squares / count) + epsilon);
}

/// y[i] = (x[i] - mean(i)) * scale(i) + shift(i), plus add[i] unless that is null.
template <class T, class Mean, class Scale, class Shift>
void normalizeRow(const T *x, const T *add, T *y, int64_t n, Mean mean, Scale scale, Shift shift) {
  if (add)
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean(i)) * scale(i) + shift(i) + add[i];
  else
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean(i)) * scale(i) + shift(i);
}
/// The same with one mean, scale and shift for the row.
template <class T> void normalizeRow(const T *x, const T *add, T *y, int64_t n, T mean, T scale, T shift) {
  normalizeRow(
      x, add, y, n, [=](int64_t) { return mean; }, [=](int64_t) { return scale; }, [=](int64_t) { return shift; });
}

/// dx = scale * (d - shift - (x - mean) * slope); d and dx may be the same.
template <class T> void normGradApply(const T *d, const T *x, T *dx, int64_t n, T mean, T scale, T shift, T slope) {
  for (int64_t i = 0; i < n; ++i) dx[i] = scale * (d[i] - shift - (x[i] - mean) * slope);
}

/// The gradient of one normalised row of n elements. `dx` holds d, the gradient times gamma, and becomes
/// inverse * (d - mean(d) - xhat * mean(d * xhat)) with xhat = (x - mean) * inverse; without `centered` the mean of d
/// stays (root-mean-square normalisation, whose mean is 0).
template <class T> void normGradRow(const T *x, T *dx, int64_t n, T mean, T inverse, bool centered) {
  const T count = static_cast<T>(n);
  const T shift = centered ? rowTotal(dx, n) / count : T(0);
  const T slope = centeredDot(dx, x, mean, n) * inverse * inverse / count;
  normGradApply(dx, x, dx, n, mean, inverse, shift, slope);
}

} // namespace opc::ops::norm
