// A vector added along one axis.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"

namespace opc::cuda {
namespace {

template <class T> __device__ T sumOf(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(x) + static_cast<U>(y));
  } else {
    return stored<T>(load(x) + load(y));
  }
}

/// b[(i / inner) % channels] is added to a[i].
template <class T>
__device__ void biasAdd(const void *a, const void *b, void *out, int64_t n, int64_t channels, int64_t inner) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep())
    static_cast<T *>(out)[i] = sumOf(static_cast<const T *>(a)[i], static_cast<const T *>(b)[i / inner % channels]);
}

} // namespace

#define OPC_BIAS_ADD(name, T)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      bias_add_##name(const void *a, const void *b, void *out, int64_t n, int64_t channels, int64_t inner) {           \
    biasAdd<T>(a, b, out, n, channels, inner);                                                                         \
  }
OPC_EACH_NUMBER(OPC_BIAS_ADD)

} // namespace opc::cuda
