// Gathers and scatters rows within each batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

namespace oneflow {

/// Arrays of three axes: (batch, rows, size of a row). The flat shape is that of the output: its rows are as many as
/// the indices of a batch.
template <DeviceType device, class T, class K> struct BatchGatherKernelUtilImpl final {
  static_assert(device == DeviceType::kCPU, "the compat headers gather on the CPU");
  /// out[b, i] = in[b, indices[b, i]].
  static void Forward(DeviceCtx *, const T *in, const K *indices, const Shape &flat, int64_t rows, T *out) {
    const int64_t size = flat.At(2);
    eachIndex(indices, flat, rows,
              [=](int64_t source, int64_t i) { std::copy_n(in + source * size, size, out + i * size); });
  }
  /// in_diff[b, indices[b, i]] += out_diff[b, i].
  static void Backward(DeviceCtx *, const T *outDiff, const K *indices, const Shape &flat, int64_t rows, T *inDiff) {
    const int64_t size = flat.At(2);
    eachIndex(indices, flat, rows, [=](int64_t target, int64_t i) {
      for (int64_t j = 0; j < size; ++j) inDiff[target * size + j] += outDiff[i * size + j];
    });
  }

private:
  template <class F> static void eachIndex(const K *indices, const Shape &flat, int64_t rows, F &&f) {
    for (int64_t b = 0; b < flat.At(0); ++b)
      for (int64_t i = b * flat.At(1); i < (b + 1) * flat.At(1); ++i) {
        CHECK(indices[i] >= 0 && indices[i] < rows) << "index " << indices[i] << " of " << rows;
        f(b * rows + indices[i], i);
      }
  }
};

} // namespace oneflow
