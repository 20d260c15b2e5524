// Adds up the rows that have the same index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

namespace oneflow {

template <DeviceType device, class K, class T, class IDX> struct IndexedSlicesReduceSumKernelUtil {
  static_assert(device == DeviceType::kCPU, "the compat headers add on the CPU");
  /// Of n rows of m values: the different indices in the order in which they appear, how many they are, and the sum of
  /// the rows of each. The rest of `sums` is zero.
  static void ReduceSum(DeviceCtx *, int64_t n, int64_t m, const K *indices, const T *values, IDX *count, K *different,
                        T *sums, void *, int64_t) {
    std::fill_n(sums, n * m, T(0));
    std::unordered_map<K, int64_t> rowOf;
    for (int64_t i = 0; i < n; ++i) {
      const auto [found, isNew] = rowOf.emplace(indices[i], static_cast<int64_t>(rowOf.size()));
      if (isNew) different[found->second] = indices[i];
      for (int64_t j = 0; j < m; ++j) sums[found->second * m + j] += values[i * m + j];
    }
    *count = static_cast<IDX>(rowOf.size());
  }
  static void GetReduceSumWorkspaceSizeInBytes(DeviceCtx *, int64_t, int64_t, int64_t *bytes) { *bytes = 0; }
};

} // namespace oneflow
