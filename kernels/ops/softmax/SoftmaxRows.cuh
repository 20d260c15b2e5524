// What a warp computes of a row of numbers: its largest, sums, softmax.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"

namespace opc::cuda {

constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// The row of this warp, and the step to its next one.
__device__ inline int64_t firstRow() {
  return static_cast<int64_t>(blockIdx.x) * (blockDim.x / kLanes) + threadIdx.x / kLanes;
}
__device__ inline int64_t rowStep() { return static_cast<int64_t>(gridDim.x) * (blockDim.x / kLanes); }
__device__ inline int lane() { return static_cast<int>(threadIdx.x % kLanes); }

template <class C> __device__ C warpSum(C v) {
  for (int d = kLanes / 2; d > 0; d /= 2) v += __shfl_xor_sync(kAllLanes, v, d);
  return v;
}
template <class C> __device__ C warpMax(C v) {
  for (int d = kLanes / 2; d > 0; d /= 2) {
    const C other = __shfl_xor_sync(kAllLanes, v, d);
    v = other > v ? other : v;
  }
  return v;
}

__device__ inline float expOf(float x) { return expf(x); }
__device__ inline double expOf(double x) { return exp(x); }
__device__ inline float logOf(float x) { return logf(x); }
__device__ inline double logOf(double x) { return log(x); }

/// The largest of the row, and the sum of exp(x - largest). NaN in the row is NaN in the sum.
template <class T> __device__ void rowSums(const T *x, int64_t n, Compute<T> *top, Compute<T> *sum) {
  using C = Compute<T>;
  C m = -static_cast<C>(scalar::f32::kInf64);
  for (int64_t i = lane(); i < n; i += kLanes) {
    const C v = load(x[i]);
    m = v > m ? v : m;
  }
  m = warpMax(m);
  C s = 0;
  for (int64_t i = lane(); i < n; i += kLanes) s += expOf(load(x[i]) - m);
  *top = m;
  *sum = warpSum(s);
}

} // namespace opc::cuda
