// The register tiles of products of f32 for x86-64-v4: this file has options of its own, and nothing in it may be
// called elsewhere. The bits are those of the tiles of v3: an element's sum has one order.
// SPDX-License-Identifier: Apache-2.0
#include "GemmTilesV4.h"

#include <immintrin.h>
#include <utility>

namespace opc::cpu {
namespace {

/// Masks are of columns: what is not there is not touched.
template <int kTall, int kPanels> void multiply(const GemmTileV4 &t) {
  __mmask16 there[kPanels];
  const float *b[kPanels];
  __m512 sums[kTall][kPanels];
  for (int64_t n = 0; n < kPanels; ++n) {
    const int64_t columns = t.columns - 16 * n;
    there[n] = static_cast<__mmask16>(columns >= 16 ? 0xffff : (1 << columns) - 1);
    b[n] = n == 0 ? t.b : t.second;
#pragma GCC unroll 8
    for (int i = 0; i < kTall; ++i) sums[i][n] = _mm512_setzero_ps();
  }
  const int64_t rowStride = t.rowStride, columnStride = t.columnStride, ldb = t.ldb;
  const int64_t toSecond = kPanels == 2 ? t.second - t.b : 0;
  const float *a = t.a, *ahead = t.ahead;
  for (int64_t p = 0; p < t.k; ++p) {
    __m512 factors[kPanels];
#pragma GCC unroll 2
    for (int64_t n = 0; n < kPanels; ++n) {
      __builtin_prefetch(ahead + n * toSecond);
      factors[n] = _mm512_maskz_loadu_ps(there[n], b[n]);
      b[n] += ldb;
    }
    ahead += t.aheadStep;
#pragma GCC unroll 8
    for (int i = 0; i < kTall; ++i) {
      const __m512 x = _mm512_set1_ps(a[i * rowStride]);
#pragma GCC unroll 2
      for (int64_t n = 0; n < kPanels; ++n) sums[i][n] = _mm512_fmadd_ps(x, factors[n], sums[i][n]);
    }
    a += columnStride;
  }
  const __m512 scale = _mm512_set1_ps(t.alpha);
#pragma GCC unroll 8
  for (int i = 0; i < kTall; ++i)
    for (int64_t n = 0; n < kPanels; ++n) {
      float *const at = t.c + i * t.ldc + n * 16;
      __m512 r = sums[i][n];
      if (t.alpha != 1) r = _mm512_mul_ps(r, scale);
      if (t.accumulate) r = _mm512_add_ps(r, _mm512_maskz_loadu_ps(there[n], at));
      _mm512_mask_storeu_ps(at, there[n], r);
    }
}

template <int kTall> void tile(const GemmTileV4 &t) { t.second ? multiply<kTall, 2>(t) : multiply<kTall, 1>(t); }

template <size_t... R> constexpr GemmTilesV4 table(std::index_sequence<R...>) {
  return {tile<static_cast<int>(R) + 1>...};
}

} // namespace

extern const GemmTilesV4 kGemmTilesV4;
const GemmTilesV4 kGemmTilesV4 = table(std::make_index_sequence<kTileRowsV4>());

} // namespace opc::cpu
