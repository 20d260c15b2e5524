// Elements that a thread needs several times: read once, where they are few.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"

namespace opc::cuda {

/// What a thread takes of some elements, of which number k is x[at(k)]: number `first`, and each `step` further one
/// before `end`. The first kHeld of them are read once and stay in registers; those behind are read whenever they are
/// asked for.
template <class T, int kHeld, class At> class HeldElements {
public:
  __device__ HeldElements(const T *x, At at, int64_t first, int64_t end, int64_t step)
      : x_(x), at_(at), first_(first), end_(end), step_(step) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int64_t k = first + j * step;
      held_[j] = k < end ? load(x[at(k)]) : Compute<T>(0);
    }
  }
  /// f(where it lies, the element), in order.
  template <class F> __device__ void each(F f) const {
#pragma unroll
    for (int j = 0; j < kHeld; ++j)
      if (const int64_t k = first_ + j * step_; k < end_) f(at_(k), held_[j]);
#pragma unroll 1
    for (int64_t k = first_ + kHeld * step_; k < end_; k += step_) {
      const int64_t e = at_(k);
      f(e, load(x_[e]));
    }
  }

private:
  const T *x_;
  At at_;
  int64_t first_, end_, step_;
  Compute<T> held_[kHeld];
};

/// The same with the type of at.
template <int kHeld, class T, class At>
__device__ HeldElements<T, kHeld, At> held(const T *x, At at, int64_t first, int64_t end, int64_t step) {
  return {x, at, first, end, step};
}

} // namespace opc::cuda
