// The register tiles of products of f32 for processors with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace opc::cpu {

/// As gemmTile of GemmMicroKernel.h, for up to 16 columns; with `second`, for that panel's up to 16 columns, too, which
/// stand 16 behind the first ones in c. Of both panels what is `ahead` of the first is asked for.
struct GemmTileV4 {
  int64_t k;
  const float *a;
  int64_t rowStride, columnStride;
  const float *b, *second;
  int64_t ldb;
  float *c;
  int64_t ldc, columns;
  float alpha;
  bool accumulate;
  const float *ahead;
  int64_t aheadStep;
};

/// More rows of a matrix whose width is a multiple of 1024 fall on each other in the first cache.
constexpr int64_t kTileRowsV4 = 8;
/// By rows - 1.
using GemmTilesV4 = std::array<void (*)(const GemmTileV4 &t), static_cast<size_t>(kTileRowsV4)>;
extern const GemmTilesV4 kGemmTilesV4;

} // namespace opc::cpu
