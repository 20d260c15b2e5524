// bitwise_not of the types whose numbers do not have the -1 of its scalar function.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"

namespace opc::cuda {
namespace {

/// Bool is 0 or 1.
template <class T, bool kIsBool> __device__ void invert(const void *in, void *out, int64_t n) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    const T x = static_cast<const T *>(in)[i];
    static_cast<T *>(out)[i] = static_cast<T>(kIsBool ? x == 0 : ~x);
  }
}

} // namespace

#define OPC_INVERT(name, T, kIsBool)                                                                                   \
  extern "C" __global__ void __launch_bounds__(256, 1) bitwise_not_##name(const void *in, void *out, int64_t n) {      \
    invert<T, kIsBool>(in, out, n);                                                                                    \
  }
OPC_INVERT(bool, uint8_t, true)
OPC_INVERT(u8, uint8_t, false)
OPC_INVERT(u16, uint16_t, false)
OPC_INVERT(u32, uint32_t, false)
OPC_INVERT(u64, uint64_t, false)

} // namespace opc::cuda
