// Gathers slices along an axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

#define GATHER_DATA_TYPE_SEQ ARITHMETIC_DATA_TYPE_SEQ FLOAT16_DATA_TYPE_SEQ

namespace oneflow {

/// out[o, i] = in[o, indices[i] - offset] for a flat shape (outer, gathered, inner); zeros for indices that this piece
/// of the axis, which begins at `offset`, does not hold.
template <DeviceType device, class T, class K> struct GatherKernelUtilImpl final {
  static_assert(device == DeviceType::kCPU, "the compat headers gather on the CPU");
  static void Forward(DeviceCtx *, const K *indices, int64_t count, const T *in, const Shape &flat, T *out,
                      int64_t offset) {
    const int64_t gathered = flat.At(1), inner = flat.At(2);
    for (int64_t o = 0; o < flat.At(0); ++o)
      for (int64_t i = 0; i < count; ++i) {
        CHECK_GE(indices[i], 0);
        const int64_t at = static_cast<int64_t>(indices[i]) - offset;
        T *to = out + (o * count + i) * inner;
        if (at >= 0 && at < gathered)
          std::copy_n(in + (o * gathered + at) * inner, inner, to);
        else
          std::fill_n(to, inner, T());
      }
  }
};

} // namespace oneflow
