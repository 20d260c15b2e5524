// Sums of squares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

namespace oneflow {

/// An array among several.
template <class T> struct SquareSumParam {
  const T *ptr;
  int64_t count;
};

template <DeviceType device, class T> struct SquareSumKernelUtil {
  static_assert(device == DeviceType::kCPU, "the compat headers add on the CPU");
  static void SquareSum(DeviceCtx *ctx, int64_t n, const T *x, T *y) { MultiSquareSum(ctx, {{x, n}}, y); }
  /// The sum over all arrays.
  static void MultiSquareSum(DeviceCtx *, const std::vector<SquareSumParam<T>> &arrays, T *y) {
    T sum = 0;
    for (const SquareSumParam<T> &array : arrays)
      for (int64_t i = 0; i < array.count; ++i) sum += array.ptr[i] * array.ptr[i];
    *y = sum;
  }
};

} // namespace oneflow
