// The inner kernels of the matrix product: a register tile of up to six rows and one panel of two vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SimdTypes.h"

#include <array>
#include <utility>

namespace opc::cpu {

/// Columns of a panel.
template <class T> constexpr int64_t kPanel = 2 * Simd<T>::kWidth;
constexpr int64_t kTileRows = 6;

/// c[i, j] (+)= alpha * sum over p < k of a[i*rowStride + p*columnStride] * b[p*ldb + j], for Rows rows and `columns`
/// (at most one panel) columns. With Masked, b and c are touched in the first `columns` columns only; otherwise b has a
/// whole panel and `columns` concerns c alone. `ahead` is asked for from memory
/// meanwhile, and then every `aheadStep` elements.
template <class T, int Rows, bool Masked>
void gemmTile(int64_t k, const T *a, int64_t rowStride, int64_t columnStride, const T *b, int64_t ldb, T *c,
              int64_t ldc, int64_t columns, T alpha, bool accumulate, const T *ahead, int64_t aheadStep) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int W = S::kWidth;
  const auto mask0 = S::mask(columns), mask1 = S::mask(columns - W);
  V acc[Rows][2];
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i) acc[i][0] = acc[i][1] = S::zero();
  for (int64_t p = 0; p < k; ++p) {
    __builtin_prefetch(ahead);
    ahead += aheadStep;
    const V b0 = Masked ? S::load(b, mask0) : S::load(b);
    const V b1 = Masked ? S::load(b + W, mask1) : S::load(b + W);
#pragma GCC unroll 6
    for (int i = 0; i < Rows; ++i) {
      const V x = S::set1(a[i * rowStride]);
      acc[i][0] = S::fma(x, b0, acc[i][0]);
      acc[i][1] = S::fma(x, b1, acc[i][1]);
    }
    a += columnStride;
    b += ldb;
  }
  const bool whole = columns == kPanel<T>;
  const V scale = S::set1(alpha);
#pragma GCC unroll 6
  for (int i = 0; i < Rows; ++i) {
    V r0 = acc[i][0], r1 = acc[i][1];
    if (alpha != T(1)) {
      r0 = S::mul(r0, scale);
      r1 = S::mul(r1, scale);
    }
    T *row = c + i * ldc;
    if (whole) {
      if (accumulate) {
        r0 = S::add(r0, S::load(row));
        r1 = S::add(r1, S::load(row + W));
      }
      S::store(row, r0);
      S::store(row + W, r1);
    } else {
      if (accumulate) {
        r0 = S::add(r0, S::load(row, mask0));
        r1 = S::add(r1, S::load(row + W, mask1));
      }
      S::store(row, r0, mask0);
      S::store(row + W, r1, mask1);
    }
  }
}

template <class T>
using GemmTileFn = void (*)(int64_t k, const T *a, int64_t rowStride, int64_t columnStride, const T *b, int64_t ldb,
                            T *c, int64_t ldc, int64_t columns, T alpha, bool accumulate, const T *ahead,
                            int64_t aheadStep);

/// kernels[masked][rows - 1].
template <class T, size_t... R> constexpr auto gemmTileTable(std::index_sequence<R...>) {
  return std::array<std::array<GemmTileFn<T>, sizeof...(R)>, 2>{
      std::array<GemmTileFn<T>, sizeof...(R)>{gemmTile<T, static_cast<int>(R) + 1, false>...},
      std::array<GemmTileFn<T>, sizeof...(R)>{gemmTile<T, static_cast<int>(R) + 1, true>...}};
}
template <class T> inline constexpr auto kGemmTiles = gemmTileTable<T>(std::make_index_sequence<kTileRows>());

/// c[j * stepC] for j < n: alpha times the dot product of x with row j of b (rows of k elements), four rows at a time
/// so that the multiply-adds do not wait for one another.
template <class T>
void gemmDots(int64_t k, const T *x, const T *b, int64_t n, T *c, int64_t stepC, T alpha, bool accumulate) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int W = S::kWidth;
  const int64_t body = k / (2 * W) * (2 * W);
  const auto finish = [&](V v0, V v1, const T *row, int64_t j) {
    T s = S::sum(S::add(v0, v1));
    for (int64_t p = body; p < k; ++p) s += x[p] * row[p];
    if (alpha != T(1)) s *= alpha;
    T &out = c[j * stepC];
    out = accumulate ? out + s : s;
  };
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    const T *r0 = b + j * k, *r1 = r0 + k, *r2 = r1 + k, *r3 = r2 + k;
    V v[8];
    for (V &y : v) y = S::zero();
    for (int64_t p = 0; p < body; p += 2 * W) {
      const V x0 = S::load(x + p), x1 = S::load(x + p + W);
      v[0] = S::fma(x0, S::load(r0 + p), v[0]);
      v[1] = S::fma(x1, S::load(r0 + p + W), v[1]);
      v[2] = S::fma(x0, S::load(r1 + p), v[2]);
      v[3] = S::fma(x1, S::load(r1 + p + W), v[3]);
      v[4] = S::fma(x0, S::load(r2 + p), v[4]);
      v[5] = S::fma(x1, S::load(r2 + p + W), v[5]);
      v[6] = S::fma(x0, S::load(r3 + p), v[6]);
      v[7] = S::fma(x1, S::load(r3 + p + W), v[7]);
    }
    finish(v[0], v[1], r0, j);
    finish(v[2], v[3], r1, j + 1);
    finish(v[4], v[5], r2, j + 2);
    finish(v[6], v[7], r3, j + 3);
  }
  for (; j < n; ++j) {
    const T *row = b + j * k;
    V v0 = S::zero(), v1 = S::zero();
    for (int64_t p = 0; p < body; p += 2 * W) {
      v0 = S::fma(S::load(x + p), S::load(row + p), v0);
      v1 = S::fma(S::load(x + p + W), S::load(row + p + W), v1);
    }
    finish(v0, v1, row, j);
  }
}

} // namespace opc::cpu
