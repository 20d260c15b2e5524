// l2_normalize and its gradient: `width` neighbouring vectors a block, whose threads share what belongs to each.
// SPDX-License-Identifier: Apache-2.0
#include "HeldElements.cuh"
#include "normalization/L2Arguments.h"
#include "normalization/Norm.cuh"

namespace opc::cuda {
namespace {

using ops::L2Arguments;

constexpr int kHeld = 4; // of a thread: up to 1024 elements of a block's vectors are read once

/// Vector v, of whose elements this thread takes some.
struct Vector {
  __device__ Vector(const L2Arguments &a, int64_t first)
      : v(first + threadIdx.x % a.width), lane(threadIdx.x / a.width), lanes(kNormThreads / a.width),
        begin(v / a.inner * a.n * a.inner + v % a.inner), inner(a.inner), many(v < a.vectors ? a.n : 0) {}
  /// With what `read` gives for a place.
  template <class F> __device__ auto held(F read) const {
    const auto at = [begin = begin, inner = inner](int64_t k) { return begin + k * inner; };
    return heldOf<kHeld>(at, read, lane, many, lanes);
  }
  int64_t v, lane, lanes, begin, inner, many;
};
template <class C> __device__ C normOf(C squares, double epsilon) {
  const C least = static_cast<C>(epsilon);
  return sqrt(squares < least ? least : squares);
}

template <class T> __device__ void l2Normalize(const L2Arguments &a) {
  using C = Compute<T>;
  const T *x = static_cast<const T *>(a.x);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * a.width; first < a.vectors;
       first += static_cast<int64_t>(gridDim.x) * a.width) {
    const Vector vector(a, first);
    const auto elements = vector.held([x](int64_t e) { return load(x[e]); });
    C own = 0;
    elements.each([&](int64_t, C v) { own += v * v; });
    const C sum = static_cast<C>(blockSum(static_cast<double>(own), a.width)), norm = normOf(sum, a.epsilon);
    elements.each([&](int64_t e, C v) { static_cast<T *>(a.out)[e] = stored<T>(static_cast<C>(v / norm)); });
    if (vector.lane == 0 && vector.v < a.vectors) static_cast<T *>(a.sums)[vector.v] = stored<T>(sum);
  }
}

/// dx = (dy - y sum(y dy)) / norm; where the sum of squares is below epsilon the norm is a constant.
template <class T> __device__ void l2NormalizeGrad(const L2Arguments &a) {
  using C = Compute<T>;
  const T *y = static_cast<const T *>(a.y), *dy = static_cast<const T *>(a.dy);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * a.width; first < a.vectors;
       first += static_cast<int64_t>(gridDim.x) * a.width) {
    const Vector vector(a, first);
    const C squares = vector.v < a.vectors ? load(static_cast<const T *>(a.sums)[vector.v]) : C(0);
    const C norm = normOf(squares, a.epsilon);
    const auto read = [y, dy](int64_t e) { return TwoNumbers<C>{load(y[e]), load(dy[e])}; };
    const auto elements = vector.held(read);
    C own = 0;
    if (squares >= static_cast<C>(a.epsilon)) elements.each([&](int64_t, TwoNumbers<C> v) { own += v.a * v.b; });
    const C along = static_cast<C>(blockSum(static_cast<double>(own), a.width));
    elements.each([&](int64_t e, TwoNumbers<C> v) {
      static_cast<T *>(a.out)[e] = stored<T>(static_cast<C>((v.b - v.a * along) / norm));
    });
  }
}

} // namespace

#define OPC_L2(name, T)                                                                                                \
  OPC_KERNEL(l2_normalize_##name, L2Arguments, l2Normalize<T>)                                                         \
  OPC_KERNEL(l2_normalize_grad_##name, L2Arguments, l2NormalizeGrad<T>)
OPC_EACH_FLOAT(OPC_L2)

} // namespace opc::cuda
