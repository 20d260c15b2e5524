// Rows of a tensor that indices name, one after the other; unit vectors.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexRows.cuh"

namespace opc::cuda {
namespace {

/// A row has r.inner elements T: the bytes of one are those of the widest access that rows allow.
template <class T> __device__ void gather(const RowIndices &r, const void *in, void *out) {
  const int64_t all = r.outer * r.n * r.inner;
#pragma unroll 1
  for (int64_t i = firstItem(); i < all; i += itemStep()) {
    const int64_t row = i / r.inner, column = i % r.inner;
    const int64_t from = rowOf(r, row / r.n, row % r.n, column == 0);
    static_cast<T *>(out)[i] = from < 0 ? T{} : static_cast<const T *>(in)[from * r.inner + column];
  }
}

template <class T> __device__ void oneHot(const RowIndices &r, uint64_t on, uint64_t off, void *out) {
  const int64_t depth = r.size[0], all = r.n * depth;
#pragma unroll 1
  for (int64_t i = firstItem(); i < all; i += itemStep()) {
    const int64_t place = rowOf(r, 0, i / depth, i % depth == 0);
    static_cast<T *>(out)[i] = static_cast<T>(place == i % depth ? on : off);
  }
}

} // namespace

#define OPC_GATHER(bytes, T)                                                                                           \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      gather_##bytes(const __grid_constant__ RowIndices r, const void *in, void *out) {                                \
    gather<T>(r, in, out);                                                                                             \
  }
#define OPC_ONE_HOT(bytes, T)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      one_hot_##bytes(const __grid_constant__ RowIndices r, uint64_t on, uint64_t off, void *out) {                    \
    oneHot<T>(r, on, off, out);                                                                                        \
  }
OPC_EACH_SIZE(OPC_GATHER)
OPC_GATHER(16, uint4)
OPC_EACH_SIZE(OPC_ONE_HOT)

} // namespace opc::cuda
