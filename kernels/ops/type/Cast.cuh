// Conversions between all element types, by the functions of the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"

#include "opc/Convert.h"

namespace opc::cuda {
template <class From, class To>
__device__ void castAll(const void *fromV, void *toV, int64_t n, int32_t isAligned, bool saturates) {
  constexpr int kFitting = static_cast<int>(16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To)));
  constexpr int kWidth = kFitting < 4 ? kFitting : 4; // the work of more is code, not speed
  const From *from = static_cast<const From *>(fromV);
  To *to = static_cast<To *>(toV);
  int64_t done = 0;
  if (isAligned) {
    const int64_t packs = n / kWidth;
    for (int64_t i = firstItem(); i < packs; i += itemStep()) {
      const Pack<From, kWidth> x = reinterpret_cast<const Pack<From, kWidth> *>(from)[i];
      Pack<To, kWidth> y;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y.v[k] = convertElement<To>(x.v[k], saturates);
      reinterpret_cast<Pack<To, kWidth> *>(to)[i] = y;
    }
    done = packs * kWidth;
  }
  for (int64_t i = done + firstItem(); i < n; i += itemStep()) to[i] = convertElement<To>(from[i], saturates);
}

#define OPC_CAST(a, From, b, To)                                                                                       \
  extern "C" __global__ void __launch_bounds__(256)                                                                    \
      cast_##a##_##b(const void *from, void *to, int64_t n, int32_t isAligned) {                                       \
    castAll<From, To>(from, to, n, isAligned, true);                                                                   \
  }
// Only casts to 8-bit floats know what not to saturate means.
#define OPC_CAST_PLAIN(a, From, b, To)                                                                                 \
  OPC_CAST(a, From, b, To)                                                                                             \
  extern "C" __global__ void __launch_bounds__(256)                                                                    \
      cast_##a##_##b##_plain(const void *from, void *to, int64_t n, int32_t isAligned) {                               \
    castAll<From, To>(from, to, n, isAligned, false);                                                                  \
  }
#define OPC_CASTS(a, From)                                                                                             \
  OPC_CAST(a, From, f32, float)                                                                                        \
  OPC_CAST(a, From, f64, double)                                                                                       \
  OPC_CAST(a, From, f16, float16)                                                                                      \
  OPC_CAST(a, From, bf16, bfloat16)                                                                                    \
  OPC_CAST(a, From, i8, int8_t)                                                                                        \
  OPC_CAST(a, From, u8, uint8_t)                                                                                       \
  OPC_CAST(a, From, i16, int16_t)                                                                                      \
  OPC_CAST(a, From, u16, uint16_t)                                                                                     \
  OPC_CAST(a, From, i32, int32_t)                                                                                      \
  OPC_CAST(a, From, u32, uint32_t)                                                                                     \
  OPC_CAST(a, From, i64, int64_t)                                                                                      \
  OPC_CAST(a, From, u64, uint64_t)                                                                                     \
  OPC_CAST(a, From, bool, bool)                                                                                        \
  OPC_CAST_PLAIN(a, From, f8e4m3fn, float8_e4m3fn)                                                                     \
  OPC_CAST_PLAIN(a, From, f8e5m2, float8_e5m2)

} // namespace opc::cuda
