// Conversions between the types that kernels compute in, by the functions of the CPU; 16-bit floats by the device's
// instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"

#include "opc/Convert.h"

namespace opc::cuda {

template <class To, class From> __device__ To converted(const From &x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (std::is_same_v<From, float16>)
    return converted<To>(load(x));
  else if constexpr (std::is_same_v<To, float16> || std::is_same_v<To, bfloat16>)
    return stored<To>(detail::beforeRounding(numberOf(x)));
  else
    return convertElement<To>(x);
}

template <class From, class To> __device__ void castAll(const void *fromV, void *toV, int64_t n, int32_t isAligned) {
  constexpr int kFitting = static_cast<int>(16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To)));
  constexpr int kWidth = kFitting < 4 ? kFitting : 4; // the work of more is code, not speed
  const From *from = static_cast<const From *>(fromV);
  To *to = static_cast<To *>(toV);
  int64_t done = 0;
  if (isAligned) {
    const int64_t packs = n / kWidth;
#pragma unroll 1
    for (int64_t i = firstItem(); i < packs; i += itemStep()) {
      const Pack<From, kWidth> x = reinterpret_cast<const Pack<From, kWidth> *>(from)[i];
      Pack<To, kWidth> y;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y.v[k] = converted<To>(x.v[k]);
      reinterpret_cast<Pack<To, kWidth> *>(to)[i] = y;
    }
    done = packs * kWidth;
  }
#pragma unroll 1
  for (int64_t i = done + firstItem(); i < n; i += itemStep()) to[i] = converted<To>(from[i]);
}

// A cast to the same type is a copy: OPC_SAME of a type twice puts OPC_NOTHING where the kernel's macro would be.
#define OPC_SAME_f32_f32 , OPC_NOTHING
#define OPC_SAME_f64_f64 , OPC_NOTHING
#define OPC_SAME_f16_f16 , OPC_NOTHING
#define OPC_SAME_bf16_bf16 , OPC_NOTHING
#define OPC_SAME_i8_i8 , OPC_NOTHING
#define OPC_SAME_u8_u8 , OPC_NOTHING
#define OPC_SAME_i16_i16 , OPC_NOTHING
#define OPC_SAME_u16_u16 , OPC_NOTHING
#define OPC_SAME_i32_i32 , OPC_NOTHING
#define OPC_SAME_u32_u32 , OPC_NOTHING
#define OPC_SAME_i64_i64 , OPC_NOTHING
#define OPC_SAME_u64_u64 , OPC_NOTHING
#define OPC_SAME_bool_bool , OPC_NOTHING
#define OPC_NOTHING(a, From, b, To)
#define OPC_SECOND_OF(first, second, ...) second
#define OPC_SECOND(...) OPC_SECOND_OF(__VA_ARGS__)
#define OPC_UNLESS_SAME(Kernel, a, From, b, To) OPC_SECOND(OPC_SAME_##a##_##b, Kernel, )(a, From, b, To)

#define OPC_CAST_KERNEL(a, From, b, To)                                                                                \
  extern "C" __global__ void __launch_bounds__(256)                                                                    \
      cast_##a##_##b(const void *from, void *to, int64_t n, int32_t isAligned) {                                       \
    castAll<From, To>(from, to, n, isAligned);                                                                         \
  }
#define OPC_CAST(a, From, b, To) OPC_UNLESS_SAME(OPC_CAST_KERNEL, a, From, b, To)
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
  OPC_CAST(a, From, bool, bool)

} // namespace opc::cuda
