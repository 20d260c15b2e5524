// Boxes of elements between strided layouts, and fills.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "support/StridedCopyArguments.h"

namespace opc::cuda {
namespace {

using ops::StridedCopyArguments;

template <class T> __device__ void stridedCopy(const StridedCopyArguments &a) {
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    int64_t from = 0, to = 0, rest = i;
    for (int d = a.rank; d-- > 0;) {
      const int64_t index = rest % a.dims[d];
      rest /= a.dims[d];
      from += index * a.srcStrides[d];
      to += index * a.dstStrides[d];
    }
    static_cast<T *>(a.dst)[to] = static_cast<const T *>(a.src)[from];
  }
}

template <class T> __device__ void fill(uint64_t element, void *to, int64_t n) {
  for (int64_t i = firstItem(); i < n; i += itemStep()) static_cast<T *>(to)[i] = static_cast<T>(element);
}

} // namespace

#define OPC_MOVES(bytes, T)                                                                                            \
  extern "C" __global__ void __launch_bounds__(256)                                                                    \
      strided_copy_##bytes(const __grid_constant__ StridedCopyArguments arguments) {                                   \
    stridedCopy<T>(arguments);                                                                                         \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256) fill_##bytes(uint64_t element, void *to, int64_t n) {              \
    fill<T>(element, to, n);                                                                                           \
  }
OPC_MOVES(1, uint8_t)
OPC_MOVES(2, uint16_t)
OPC_MOVES(4, uint32_t)
OPC_MOVES(8, uint64_t)

} // namespace opc::cuda
