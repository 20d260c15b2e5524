// The order of elements where all have a place. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ScalarMath.h"

#include <type_traits>

namespace opc::ops {

/// a < b, where NaN is above everything and equal to itself, as numpy sorts.
template <class T> OPC_HOST_DEVICE bool isBelow(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    using F = std::conditional_t<std::is_floating_point_v<T>, T, float>;
    const F x = static_cast<F>(a), y = static_cast<F>(b);
    return x < y || (y != y && x == x);
  }
}

} // namespace opc::ops
