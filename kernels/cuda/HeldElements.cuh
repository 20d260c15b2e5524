// Elements that a thread needs several times: read once, where they are few.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"

#include <utility>

namespace opc::cuda {

/// What a thread takes of some elements, of which number k is read(at(k)): number `first`, and each `step` further one
/// before `end`. The first kHeld of them are read once and stay in registers; those behind are read whenever they are
/// asked for.
template <int kHeld, class At, class Read> class HeldElements {
public:
  using Value = decltype(std::declval<Read>()(int64_t{}));

  __device__ HeldElements(At at, Read read, int64_t first, int64_t end, int64_t step)
      : at_(at), read_(read), first_(first), end_(end), step_(step) {
#pragma unroll
    for (int j = 0; j < kHeld; ++j) {
      const int64_t k = first + j * step;
      held_[j] = k < end ? read(at(k)) : Value{};
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
      f(e, read_(e));
    }
  }

private:
  At at_;
  Read read_;
  int64_t first_, end_, step_;
  Value held_[kHeld];
};

/// Of whatever `read` gives for a place: numbers of several tensors, say.
template <int kHeld, class At, class Read>
__device__ HeldElements<kHeld, At, Read> heldOf(At at, Read read, int64_t first, int64_t end, int64_t step) {
  return {at, read, first, end, step};
}
/// Of a tensor.
template <int kHeld, class T, class At>
__device__ auto held(const T *x, At at, int64_t first, int64_t end, int64_t step) {
  return heldOf<kHeld>(at, [x](int64_t e) { return load(x[e]); }, first, end, step);
}

/// Numbers of two tensors at one place.
template <class C> struct TwoNumbers {
  C a, b;
};

} // namespace opc::cuda
