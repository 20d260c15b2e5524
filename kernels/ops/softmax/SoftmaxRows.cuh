// What a warp computes of a row of numbers: its largest, sums, softmax.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HeldElements.cuh"

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

constexpr int kHeldOfRow = 16; // of a lane: rows of up to 512 elements are read once

/// The elements of a row that a lane takes: of one tensor, or of two.
template <class T> __device__ auto elementsOf(const T *x, int64_t n) {
  return held<kHeldOfRow>(x, [](int64_t i) { return i; }, lane(), n, kLanes);
}
template <class T> __device__ auto elementsOf(const T *x, const T *y, int64_t n) {
  return heldOf<kHeldOfRow>([](int64_t i) { return i; },
                            [x, y](int64_t i) { return TwoNumbers<Compute<T>>{load(x[i]), load(y[i])}; }, lane(), n,
                            kLanes);
}

struct Itself {
  template <class C> __device__ C operator()(C v) const { return v; }
};

/// The largest x of the row, and the sum of exp(x - largest), where x is `number` of an element. NaN in the row is NaN
/// in the sum.
template <class E, class F, class C> __device__ void sumsOf(const E &elements, F number, C *top, C *sum) {
  C m = -static_cast<C>(scalar::f32::kInf64);
  elements.each([&](int64_t, auto v) {
    const C x = number(v);
    m = x > m ? x : m;
  });
  m = warpMax(m);
  C s = 0;
  elements.each([&](int64_t, auto v) { s += exp(number(v) - m); });
  *top = m;
  *sum = warpSum(s);
}

} // namespace opc::cuda
