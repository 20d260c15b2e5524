// Elements of the types that are only stored, in device code: the numbers of opc/Convert.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"

#include "opc/Convert.h"
#include "type/StoredFormat.h"

namespace opc::cuda {

using ops::StoredFormat;

/// Of integers.
__device__ inline int integerOf(const StoredFormat &f, uint8_t byte) {
  const int low = byte & ((1 << f.bits) - 1);
  return f.isSigned && low >> (f.bits - 1) ? low - (1 << f.bits) : low;
}
__device__ inline uint8_t lowBits(const StoredFormat &f, int value) {
  return static_cast<uint8_t>(integerOf(f, static_cast<uint8_t>(value)));
}
__device__ inline float numberOf(const StoredFormat &f, uint8_t byte) {
  return f.bits ? static_cast<float>(integerOf(f, byte)) : floatOf(f.format, byte);
}

/// From a number, in the type that it is computed in.
template <class C> __device__ inline uint8_t storedAs(const StoredFormat &f, C x) {
  if (f.bits == 0) return byteOf(f.format, detail::beforeRounding(x), f.saturates);
  if constexpr (std::is_floating_point_v<C>) {
    const int lowest = f.isSigned ? -(1 << (f.bits - 1)) : 0, highest = lowest + (1 << f.bits) - 1;
    return static_cast<uint8_t>(x > C(highest) ? highest : x > C(lowest) ? static_cast<int>(x) : x != x ? 0 : lowest);
  } else {
    return lowBits(f, static_cast<int>(x));
  }
}

} // namespace opc::cuda
