// Boxes of elements between strided layouts, and fills.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "support/StridedCopyArguments.h"

namespace opc::cuda {
namespace {

using ops::StridedCopyArguments;

template <class T> __device__ void stridedCopy(const StridedCopyArguments &a) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    int64_t from = 0, to = 0, rest = i;
#pragma unroll 1
    for (int d = a.rank; d-- > 0;) {
      const int64_t index = rest % a.dims[d];
      rest /= a.dims[d];
      from += index * a.srcStrides[d];
      to += index * a.dstStrides[d];
    }
    static_cast<T *>(a.dst)[to] = static_cast<const T *>(a.src)[from];
  }
}

/// The last dimension is contiguous in the destination, the one before it in the source: through tiles in shared
/// memory, whose rows are read and whose columns are written by neighbouring threads. One element more a row: columns
/// lie in different banks.
template <class T> __device__ void transposeTiles(const StridedCopyArguments &a) {
  constexpr int kTile = ops::kTransposeTile, kRows = ops::kTransposeThreads / kTile;
  __shared__ T tile[kTile][kTile + (sizeof(T) < 4 ? 4 / sizeof(T) : 1)];
  const int x = static_cast<int>(threadIdx.x) % kTile, y = static_cast<int>(threadIdx.x) / kTile, last = a.rank - 1;
  const int64_t columns = a.dims[last - 1], rows = a.dims[last]; // as they lie in the source
  const int64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  for (int64_t i = blockIdx.x; i < a.tiles; i += gridDim.x) {
    int64_t rest = i / across / down, from = 0, to = 0;
#pragma unroll 1
    for (int d = last - 1; d-- > 0;) {
      const int64_t index = rest % a.dims[d];
      rest /= a.dims[d];
      from += index * a.srcStrides[d];
      to += index * a.dstStrides[d];
    }
    const int64_t column = i % across * kTile, row = i / across % down * kTile;
    const T *src = static_cast<const T *>(a.src) + from + column + x;
    T *dst = static_cast<T *>(a.dst) + to + row + x;
#pragma unroll 1
    for (int k = y; k < kTile; k += kRows)
      if (column + x < columns && row + k < rows) tile[k][x] = src[(row + k) * a.srcStrides[last]];
    __syncthreads();
#pragma unroll 1
    for (int k = y; k < kTile; k += kRows)
      if (row + x < rows && column + k < columns) dst[(column + k) * a.dstStrides[last - 1]] = tile[x][k];
    __syncthreads();
  }
}

template <class T> __device__ void fill(uint64_t element, void *to, int64_t n) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) static_cast<T *>(to)[i] = static_cast<T>(element);
}

} // namespace

#define OPC_MOVES(bytes, T)                                                                                            \
  OPC_KERNEL(strided_copy_##bytes, StridedCopyArguments, stridedCopy<T>)                                               \
  OPC_KERNEL(transpose_tiles_##bytes, StridedCopyArguments, transposeTiles<T>)                                         \
  extern "C" __global__ void __launch_bounds__(256, 1) fill_##bytes(uint64_t element, void *to, int64_t n) {           \
    fill<T>(element, to, n);                                                                                           \
  }
OPC_EACH_SIZE(OPC_MOVES)

} // namespace opc::cuda
