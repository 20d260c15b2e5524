// What the device code of strided copies is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

constexpr int kTransposeTile = 32, kTransposeThreads = 256;

struct StridedCopyArguments {
  const void *src;
  void *dst;
  int64_t n, tiles; // elements; tiles of the last two dimensions, where a kernel takes these
  int32_t rank, unused;
  int64_t dims[20], srcStrides[20], dstStrides[20]; // outermost first, in elements
};

} // namespace opc::ops
