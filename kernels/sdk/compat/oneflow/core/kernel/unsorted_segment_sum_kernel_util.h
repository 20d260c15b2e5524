// Adds slices up by segment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

#define UNSORTED_SEGMENT_SUM_DATA_TYPE_SEQ FLOATING_DATA_TYPE_SEQ OF_PP_MAKE_TUPLE_SEQ(int32_t, DataType::kInt32)

namespace oneflow {

/// out[o, ids[i] - offset] += data[o, i] for arrays (outer, segments, inner) and (outer, ids, inner). What belongs to a
/// segment that this piece does not hold is left out.
template <DeviceType device, class T, class K, class U> struct UnsortedSegmentSumKernelUtil final {
  static_assert(device == DeviceType::kCPU, "the compat headers add on the CPU");
  static void UnsortedSegmentSum(DeviceCtx *, const K *ids, const U *data, int64_t idCount, int64_t segments,
                                 int64_t outer, int64_t inner, int64_t offset, T *out) {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < idCount; ++i) {
        CHECK_GE(ids[i], 0);
        const int64_t segment = static_cast<int64_t>(ids[i]) - offset;
        if (segment < 0 || segment >= segments) continue;
        const U *from = data + (o * idCount + i) * inner;
        T *to = out + (o * segments + segment) * inner;
        for (int64_t j = 0; j < inner; ++j) to[j] += static_cast<T>(from[j]);
      }
  }
};

} // namespace oneflow
