// arange, range and eye.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "opc/Convert.h"

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
OPC_SEQUENCE(f32, float)
OPC_SEQUENCE(f64, double)
OPC_SEQUENCE(f16, float16)
OPC_SEQUENCE(bf16, bfloat16)
OPC_SEQUENCE(i8, int8_t)
OPC_SEQUENCE(u8, uint8_t)
OPC_SEQUENCE(i16, int16_t)
OPC_SEQUENCE(u16, uint16_t)
OPC_SEQUENCE(i32, int32_t)
OPC_SEQUENCE(u32, uint32_t)
OPC_SEQUENCE(i64, int64_t)
OPC_SEQUENCE(u64, uint64_t)
OPC_SEQUENCE(f8e4m3fn, float8_e4m3fn)
OPC_SEQUENCE(f8e5m2, float8_e5m2)

#define OPC_EYE(bytes, T)                                                                                              \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      eye_##bytes(void *out, uint64_t one, int64_t n, int64_t columns, int64_t rowBegin, int64_t columnBegin) {        \
    eye<T>(out, one, n, columns, rowBegin, columnBegin);                                                               \
  }
OPC_EYE(1, uint8_t)
OPC_EYE(2, uint16_t)
OPC_EYE(4, uint32_t)
OPC_EYE(8, uint64_t)

} // namespace opc::cuda
