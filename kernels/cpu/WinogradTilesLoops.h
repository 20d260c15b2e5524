// The loops of WinogradTiles, for the level that includes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RowVectors.h"
#include "WinogradTiles.h"

namespace opc::cpu {
namespace {

#ifdef __AVX512F__
using Wide = F16;
constexpr int kWide = 16, kRows = 16; // 16 sums of a panel in 16 of 32 registers; the products take memory operands
#else
using Wide = F8;
constexpr int kWide = 8, kRows = 6; // 12 sums in 12 of 16
#endif
constexpr int64_t kLanes = WinogradTiles::kLanes;

// The points are 0, +-a, +-b and infinity. All of these are exact.
constexpr float kA = 0.75f, kB = 1.5f, kA2 = kA * kA, kB2 = kB * kB, kA3 = kA2 * kA, kB3 = kB2 * kB;

/// Along one side: the coefficients of the polynomials that vanish at all points but one.
OPC_LANES void transformInput(const Wide *d, Wide *v) {
  const Wide minusA2 = all<Wide>(-kA2), minusB2 = all<Wide>(-kB2), product = all<Wide>(kA2 * kB2),
             minusSum = all<Wide>(-(kA2 + kB2));
  const Wide evenA = fma(minusB2, d[2], d[4]), oddA = mul(all<Wide>(kA), fma(minusB2, d[1], d[3]));
  const Wide evenB = fma(minusA2, d[2], d[4]), oddB = mul(all<Wide>(kB), fma(minusA2, d[1], d[3]));
  v[0] = fma(product, d[0], fma(minusSum, d[2], d[4]));
  v[1] = add(evenA, oddA);
  v[2] = sub(evenA, oddA);
  v[3] = add(evenB, oddB);
  v[4] = sub(evenB, oddB);
  v[5] = fma(product, d[1], fma(minusSum, d[3], d[5]));
}

/// The values of a window's polynomial at the points, over what the others' polynomials are there.
OPC_LANES void transformWeight(const Wide *g, Wide *u) {
  constexpr double a = kA, b = kB, atZero = 1 / (a * a * b * b), atA = 1 / (2 * a * a * (a * a - b * b)),
                   atB = 1 / (2 * b * b * (b * b - a * a));
  const auto constant = [](double v) { return all<Wide>(static_cast<float>(v)); };
  const Wide evenA = fma(constant(a * a * atA), g[2], mul(constant(atA), g[0])), oddA = mul(constant(a * atA), g[1]);
  const Wide evenB = fma(constant(b * b * atB), g[2], mul(constant(atB), g[0])), oddB = mul(constant(b * atB), g[1]);
  u[0] = mul(constant(atZero), g[0]);
  u[1] = add(evenA, oddA);
  u[2] = sub(evenA, oddA);
  u[3] = add(evenB, oddB);
  u[4] = sub(evenB, oddB);
  u[5] = g[2];
}

OPC_LANES void transformOutput(const Wide *m, Wide *y) {
  const Wide evenA = add(m[1], m[2]), oddA = sub(m[1], m[2]), evenB = add(m[3], m[4]), oddB = sub(m[3], m[4]);
  y[0] = add(add(m[0], evenA), evenB);
  y[1] = fma(all<Wide>(kB), oddB, mul(all<Wide>(kA), oddA));
  y[2] = fma(all<Wide>(kB2), evenB, mul(all<Wide>(kA2), evenA));
  y[3] = fma(all<Wide>(kB3), oddB, fma(all<Wide>(kA3), oddA, m[5]));
}

void input(const WinogradTiles::Image &image, int64_t row, int64_t column, float *v, int64_t stride) {
  const bool isInside = row >= 0 && column >= 0 && row + 6 <= image.rows && column + 6 <= image.columns;
  const float *const first = image.data + (row * image.columns + column) * image.channels;
  const int64_t rowStride = image.columns * image.channels;
  for (int64_t c = 0; c < image.channels; c += kWide) {
    Wide d[6][6], across[6][6];
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        const bool isThere =
            isInside || (row + i >= 0 && row + i < image.rows && column + j >= 0 && column + j < image.columns);
        d[i][j] = isThere ? loaded<Wide>(first + i * rowStride + j * image.channels + c) : all<Wide>(0);
      }
    for (int i = 0; i < 6; ++i) transformInput(d[i], across[i]);
    for (int j = 0; j < 6; ++j) {
      const Wide column6[6] = {across[0][j], across[1][j], across[2][j], across[3][j], across[4][j], across[5][j]};
      Wide down[6];
      transformInput(column6, down);
      for (int i = 0; i < 6; ++i) store(v + (i * 6 + j) * stride + c, down[i]);
    }
  }
}

/// A large weight is on its way from memory meanwhile, that of the next call too.
void weight(const float *w, int64_t channels, float *u, int64_t stride) {
  constexpr int64_t kAhead = 8;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < 9; ++p) __builtin_prefetch(w + ((c + kAhead) * 9 + p) * kLanes, 0, 2);
    for (int64_t f = 0; f < kLanes; f += kWide) {
      Wide g[3][3], across[3][6];
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 3; ++j) g[i][j] = loaded<Wide>(w + (c * 9 + i * 3 + j) * kLanes + f);
        transformWeight(g[i], across[i]);
      }
      for (int j = 0; j < 6; ++j) {
        const Wide column[3] = {across[0][j], across[1][j], across[2][j]};
        Wide down[6];
        transformWeight(column, down);
        for (int i = 0; i < 6; ++i) store(u + (i * 6 + j) * stride + c * kLanes + f, down[i]);
      }
    }
  }
}

/// What is before is added at the end: sums of a few channels each have smaller errors than one of all.
template <int kTall>
OPC_LANES void productRows(const float *v, int64_t rowStride, const float *u, int64_t stride, int64_t channels,
                           float *m, bool adds) {
  constexpr int kVectors = kLanes / kWide;
  Wide sums[kTall][kVectors];
  for (auto &row : sums)
    for (Wide &sum : row) sum = all<Wide>(0);
  for (int64_t c = 0; c < channels; ++c) {
    Wide factors[kVectors];
    for (int64_t n = 0; n < kVectors; ++n) factors[n] = loaded<Wide>(u + c * stride + n * kWide);
    for (int r = 0; r < kTall; ++r) {
      const Wide x = all<Wide>(v[r * rowStride + c]);
      for (int64_t n = 0; n < kVectors; ++n) sums[r][n] = fma(x, factors[n], sums[r][n]);
    }
  }
  for (int r = 0; r < kTall; ++r)
    for (int64_t n = 0; n < kVectors; ++n) {
      float *const at = m + r * kLanes + n * kWide;
      store(at, adds ? add(loaded<Wide>(at), sums[r][n]) : sums[r][n]);
    }
}

template <int kTall>
void lastRows(int64_t rows, const float *v, int64_t rowStride, const float *u, int64_t stride, int64_t channels,
              float *m, bool adds) {
  if constexpr (kTall > 0) {
    if (rows == kTall)
      productRows<kTall>(v, rowStride, u, stride, channels, m, adds);
    else
      lastRows<kTall - 1>(rows, v, rowStride, u, stride, channels, m, adds);
  }
}

void product(const float *v, int64_t rows, int64_t rowStride, const float *u, int64_t stride, int64_t channels,
             float *m, bool adds) {
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows)
    productRows<kRows>(v + r * rowStride, rowStride, u, stride, channels, m + r * kLanes, adds);
  lastRows<kRows - 1>(rows - r, v + r * rowStride, rowStride, u, stride, channels, m + r * kLanes, adds);
}

OPC_LANES void put(Wide sum, Wide bias, float *at, const WinogradTiles::End &end) {
  Wide y = add(sum, bias);
  if (end.adds) y = add(y, loaded<Wide>(at));
  store(at, min(all<Wide>(end.high), max(all<Wide>(end.low), y))); // y second: NaN stays
}

void output(const float *m, int64_t stride, const WinogradTiles::Place &place, const WinogradTiles::End &end) {
  constexpr int kTile = static_cast<int>(WinogradTiles::kTile);
  for (int64_t f = 0; f < kLanes; f += kWide) {
    const Wide bias = loaded<Wide>(end.bias + f);
    Wide across[6][kTile];
    for (int i = 0; i < 6; ++i) {
      Wide row[6];
      for (int j = 0; j < 6; ++j) row[j] = loaded<Wide>(m + (i * 6 + j) * stride + f);
      transformOutput(row, across[i]);
    }
    for (int j = 0; j < kTile; ++j) {
      const Wide column[6] = {across[0][j], across[1][j], across[2][j], across[3][j], across[4][j], across[5][j]};
      Wide down[kTile];
      transformOutput(column, down);
      if (j >= place.columns) break;
      for (int64_t i = 0; i < kTile && i < place.rows; ++i)
        put(down[i], bias, place.data + i * place.rowStride + j * place.columnStride + f, end);
    }
  }
}

void finish(const float *m, const WinogradTiles::Place &place, const WinogradTiles::End &end) {
  for (int64_t i = 0; i < place.rows; ++i)
    for (int64_t j = 0; j < place.columns; ++j)
      for (int64_t f = 0; f < kLanes; f += kWide)
        put(loaded<Wide>(m + (i * WinogradTiles::kTile + j) * kLanes + f), loaded<Wide>(end.bias + f),
            place.data + i * place.rowStride + j * place.columnStride + f, end);
}

uint32_t largest(const float *x, const float *scale, int64_t count) {
  const auto bits = [&](int64_t i) {
    return _mm256_castps_si256(_mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(scale + i)));
  };
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i a = _mm256_setzero_si256(), b = a;
  for (int64_t i = 0; i < count; i += kLanes) {
    a = _mm256_max_epu32(a, _mm256_and_si256(magnitude, bits(i)));
    b = _mm256_max_epu32(b, _mm256_and_si256(magnitude, bits(i + 8)));
  }
  a = _mm256_max_epu32(a, b);
  __m128i c = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  c = _mm_max_epu32(c, _mm_shuffle_epi32(c, 0x4e));
  c = _mm_max_epu32(c, _mm_shuffle_epi32(c, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(c));
}

constexpr WinogradTiles kLoops = {input, weight, product, output, finish, largest};

} // namespace
} // namespace opc::cpu
