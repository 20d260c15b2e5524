// Scalar functions that kernels of both devices use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

namespace oneflow {

/// x, but no less than 1e-20: its logarithm is finite.
template <class T> OF_DEVICE_FUNC T MaxWithLogThreshold(T x) {
  const T least = static_cast<T>(1e-20);
  return x > least ? x : least;
}
template <class T> OF_DEVICE_FUNC T SafeLog(T x) { return static_cast<T>(std::log(MaxWithLogThreshold(x))); }

} // namespace oneflow
