// arange, range and eye.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "opc/Convert.h"
#include "type/StoredFormat.cuh"

namespace opc::cuda {
namespace {

template <class T>
__device__ void sequence(void *out, int64_t n, int64_t begin, int32_t isFloating, double start, double delta,
                         int64_t intStart, int64_t intDelta) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    const int64_t at = begin + i;
    static_cast<T *>(out)[i] =
        isFloating
            ? convertElement<T>(start + static_cast<double>(at) * delta)
            : convertElement<T>(static_cast<int64_t>(static_cast<uint64_t>(intStart) +
                                                     static_cast<uint64_t>(at) * static_cast<uint64_t>(intDelta)));
  }
}

/// `one` where row and column of the whole are equal.
template <class T>
__device__ void eye(void *out, uint64_t one, int64_t n, int64_t columns, int64_t rowBegin, int64_t columnBegin) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep())
    static_cast<T *>(out)[i] = rowBegin + i / columns == columnBegin + i % columns ? static_cast<T>(one) : T(0);
}

} // namespace

#define OPC_SEQUENCE(name, T)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      sequence_##name(void *out, int64_t n, int64_t begin, int32_t isFloating, double start, double delta,             \
                      int64_t intStart, int64_t intDelta) {                                                            \
    sequence<T>(out, n, begin, isFloating, start, delta, intStart, intDelta);                                          \
  }
OPC_EACH_NUMBER(OPC_SEQUENCE)

extern "C" __global__ void __launch_bounds__(256, 1)
    sequence_stored(void *out, int64_t n, int64_t begin, int32_t isFloating, double start, double delta,
                    int64_t intStart, int64_t intDelta, StoredFormat f) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    const int64_t at = begin + i;
    static_cast<uint8_t *>(out)[i] =
        isFloating ? storedAs(f, start + static_cast<double>(at) * delta)
                   : storedAs(f, static_cast<int64_t>(static_cast<uint64_t>(intStart) +
                                                      static_cast<uint64_t>(at) * static_cast<uint64_t>(intDelta)));
  }
}

#define OPC_EYE(bytes, T)                                                                                              \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      eye_##bytes(void *out, uint64_t one, int64_t n, int64_t columns, int64_t rowBegin, int64_t columnBegin) {        \
    eye<T>(out, one, n, columns, rowBegin, columnBegin);                                                               \
  }
OPC_EACH_SIZE(OPC_EYE)

} // namespace opc::cuda
