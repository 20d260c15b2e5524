// Where the elements of a reduction are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "reduce/ReduceArguments.h"

namespace opc::cuda {

__device__ inline int64_t stridedPlace(int64_t i, int32_t rank, const int64_t *dims, const int64_t *strides) {
  int64_t at = 0;
#pragma unroll 1
  for (int d = rank; d-- > 0;) {
    at += i % dims[d] * strides[d];
    i /= dims[d];
  }
  return at;
}
/// The first element of result o, and from there element i of those that are reduced.
__device__ inline int64_t keptPlace(const ops::ReduceArguments &a, int64_t o) {
  return stridedPlace(o, a.keptRank, a.keptDims, a.keptStrides);
}
__device__ inline int64_t reducedPlace(const ops::ReduceArguments &a, int64_t i) {
  return stridedPlace(i, a.reducedRank, a.reducedDims, a.reducedStrides);
}

} // namespace opc::cuda
