// How convolutions on GPUs describe themselves to their device code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaLaunch.h"
#include "convolution/ConvArguments.h"
#include "convolution/ConvGeometry.h"

#include <algorithm>

namespace opc::ops {

/// With fewer columns most of a tile of the device code would be empty.
constexpr int64_t kFewColumns = 8;

inline int64_t volume(const Spatial &s) { return s[0] * s[1] * s[2]; }
inline uint32_t limited(int64_t n, int64_t limit) { return static_cast<uint32_t>(std::clamp<int64_t>(n, 1, limit)); }
/// Tiles of 64 rows or columns.
inline int64_t tilesOf(int64_t n) { return (n + 63) / 64; }
inline cuda::Dim3 gridOfTiles(int64_t rows, int64_t columns, int64_t parts) {
  return {limited(tilesOf(rows), INT32_MAX), limited(tilesOf(columns), 65535), limited(parts, 65535)};
}

/// Sizes and strides; the tensors are up to the caller.
ConvArguments convArguments(const ConvGeometry &g);

} // namespace opc::ops
