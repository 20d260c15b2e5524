// The steps of a convolution with 3x3 windows by Winograd's minimal filtering, in f32 and channels_last. One source,
// compiled for x86-64-v3 and for v4; what the processor has is taken. The bits are the same: each number is computed by
// the same operations in the same order, whatever the vectors are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::cpu {

/// F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016): a tile of 4x4 results
/// comes of 6x6 pixels by 36 products in the place of 144. The transforms are Toom and Cook's, by values of polynomials
/// at 0, 3/4, -3/4, 3/2, -3/2 and infinity; at small integers, as in that paper, errors are four times as large.
/// Channels and filters come by kLanes.
struct WinogradTiles {
  static constexpr int64_t kLanes = 16, kTile = 4, kNumbers = 36;

  /// A sample: [rows, columns, channels].
  struct Image {
    const float *data;
    int64_t rows, columns, channels;
  };
  /// What becomes of sums: y = min(max(sum + bias [+ y], low), high), where a NaN stays.
  struct End {
    const float *bias; // of kLanes filters
    bool adds;
    float low, high;
  };
  /// Where a tile's results go: `rows` x `columns`, at most kTile each; elements between neighbours.
  struct Place {
    float *data;
    int64_t rows, columns, rowStride, columnStride;
  };

  /// v[t * stride + c] for t < kNumbers: the transform of the 6x6 pixels from (row, column) on. What lies outside of
  /// the image is 0.
  void (*input)(const Image &image, int64_t row, int64_t column, float *v, int64_t stride);
  /// u[t * stride + c * kLanes + f] from w[(c * 9 + p) * kLanes + f], p < 9 along the window.
  void (*weight)(const float *w, int64_t channels, float *u, int64_t stride);
  /// m[r * kLanes + f] [+]= sum over c < channels of v[r * rowStride + c] * u[c * stride + f], in the order of c.
  void (*product)(const float *v, int64_t rows, int64_t rowStride, const float *u, int64_t stride, int64_t channels,
                  float *m, bool adds);
  /// From m[t * stride + f], for kLanes filters.
  void (*output)(const float *m, int64_t stride, const Place &place, const End &end);
  /// The same of results themselves: m[(i * kTile + j) * kLanes + f] is that of row i and column j.
  void (*finish)(const float *m, const Place &place, const End &end);
  /// The bits of the largest magnitude of x[i] * scale[i] for `count` i, a multiple of kLanes: those of infinity and
  /// NaN are larger than a number's.
  uint32_t (*largest)(const float *x, const float *scale, int64_t count);
};

/// For this processor; that of x86-64-v3 where OPC_CODE_LEVEL is v3 or none.
const WinogradTiles &winogradTiles();

/// By level, for tests. The second one needs AVX-512.
extern const WinogradTiles kWinogradTilesV3, kWinogradTilesV4;

} // namespace opc::cpu
