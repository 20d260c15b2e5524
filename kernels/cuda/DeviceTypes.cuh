// Element types in device code: the SDK's own 16- and 8-bit floats, whose numbers are the CPU's bit for bit. A NaN that
// was f16 is CUDA's one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The conversions of opc/Floats.h are inline functions of the host: read here, they are both sides'.
#include <cfloat>
#include <cstdint>
#include <cstring>
#define inline __host__ __device__ inline
#include "opc/Floats.h"
#undef inline

#include "EachType.cuh"
#include "opc/ElementTypes.h"
#include "opc/ScalarMath.h"

namespace opc::cuda {

/// The type that elements of T are computed in, as on the CPU.
template <class T> using Compute = std::conditional_t<std::is_same_v<T, bool>, uint8_t, user_op::ComputeType<T>>;

template <class T> __device__ inline Compute<T> load(const T &v) {
  if constexpr (std::is_same_v<T, bool>) {
    return *reinterpret_cast<const uint8_t *>(&v);
  } else if constexpr (std::is_same_v<T, float16>) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
    return wide;
  } else {
    return static_cast<Compute<T>>(v);
  }
}
/// To nearest, ties to even, as the SDK's conversions, but without their jumps.
template <class T, class C> __device__ inline T stored(C v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != C(0);
  } else if constexpr (std::is_same_v<T, float16>) {
    T half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(static_cast<float>(v)));
    return half;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    const float f = static_cast<float>(v);
    const uint32_t x = __float_as_uint(f), rounded = x + 0x7fffu + (x >> 16 & 1u),
                   chosen = f == f ? rounded : x | 0x400000u;
    T half;
    half.bits = static_cast<uint16_t>(chosen >> 16);
    return half;
  } else {
    return static_cast<T>(v);
  }
}

/// Neighbours that are read or written in one access.
template <class T, int N> struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

/// The place of this thread in a loop over the grid, and the step of that loop.
__device__ inline int64_t firstItem() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t itemStep() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

} // namespace opc::cuda
