// Losses element by element, and those of one class in each row with their gradients: the formulas of the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "IndexFault.cuh"
#include "loss/LossArguments.h"

namespace opc::cuda {
namespace {

using ops::ClassArguments;
using ops::LossArguments;

template <class C> __device__ C softplus(C x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
/// std::max(x, -100): NaN stays.
template <class C> __device__ C bounded(C x) { return x < C(-100) ? C(-100) : x; }

struct BinaryCrossEntropy {
  template <class C> static __device__ C of(C x, C t, C, const LossArguments &) {
    return -(t * bounded(log(x)) + (1 - t) * bounded(log(1 - x)));
  }
};
struct BinaryCrossEntropyWithLogits {
  template <class C> static __device__ C of(C x, C t, C p, const LossArguments &) {
    return p * t * softplus(-x) + (1 - t) * softplus(x);
  }
};
struct SmoothL1 {
  template <class C> static __device__ C of(C x, C t, C, const LossArguments &a) {
    const C d = x > t ? x - t : t - x, b = static_cast<C>(a.beta);
    return d < b ? C(0.5) * d * d / b : d - C(0.5) * b;
  }
};
struct KlDiv {
  template <class C> static __device__ C of(C x, C t, C, const LossArguments &a) {
    if (a.isLogTarget) return exp(t) * (t - x);
    return t == 0 ? C(0) : t * (log(t) - x);
  }
};

template <class T, class Loss> __device__ void pointwise(const LossArguments &a) {
  using C = Compute<T>;
  const T *weight = static_cast<const T *>(a.weight), *pos = static_cast<const T *>(a.pos);
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    const C v = Loss::of(load(static_cast<const T *>(a.input)[i]), load(static_cast<const T *>(a.target)[i]),
                         pos ? load(pos[i % a.posCount]) : C(1), a);
    static_cast<T *>(a.out)[i] = stored<T>(static_cast<C>(weight ? v * load(weight[i]) : v));
  }
}

/// The class of row r among those of this device; -1 where another has it, or it is ignored, or wrong.
__device__ int64_t classOf(const ClassArguments &a, int64_t r, bool reports) {
  const int64_t k = indexAt(a.labels, a.isWide, r);
  if (a.hasIgnored && k == a.ignored) return -1;
  if (k < 0 || k >= a.whole) {
    if (reports) reportIndex(a.fault, r, k);
    return -1;
  }
  const int64_t place = k - a.begin;
  return place >= 0 && place < a.classes ? place : -1;
}

template <class T> __device__ void sparseLoss(const ClassArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstItem(); r < a.rows; r += itemStep()) {
    const int64_t k = classOf(a, r, true);
    static_cast<T *>(a.out)[r] = stored<T>(k < 0 ? C(0) : -log(load(static_cast<const T *>(a.in)[r * a.classes + k])));
  }
}
template <class T> __device__ void nll(const ClassArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstItem(); r < a.rows; r += itemStep()) {
    const int64_t k = classOf(a, r, true);
    const C weight = k < 0 ? C(0) : a.weight ? load(static_cast<const T *>(a.weight)[k]) : C(1);
    static_cast<T *>(a.outWeight)[r] = stored<T>(weight);
    static_cast<T *>(a.out)[r] =
        stored<T>(k < 0 ? C(0) : static_cast<C>(-load(static_cast<const T *>(a.in)[r * a.classes + k]) * weight));
  }
}
template <class T> __device__ void sparseLossGrad(const ClassArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.rows * a.classes; i += itemStep()) {
    const int64_t r = i / a.classes, k = classOf(a, r, i % a.classes == 0);
    const C d =
        i % a.classes == k ? -load(static_cast<const T *>(a.dy)[r]) / load(static_cast<const T *>(a.in)[i]) : C(0);
    static_cast<T *>(a.out)[i] = stored<T>(d);
  }
}
template <class T> __device__ void nllGrad(const ClassArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.rows * a.classes; i += itemStep()) {
    const int64_t r = i / a.classes, k = classOf(a, r, i % a.classes == 0);
    C d = i % a.classes == k ? -load(static_cast<const T *>(a.dy)[r]) : C(0);
    if (i % a.classes == k && a.weight) d = d * load(static_cast<const T *>(a.weight)[k]);
    static_cast<T *>(a.out)[i] = stored<T>(d);
  }
}

} // namespace

#define OPC_LOSSES(name, T)                                                                                            \
  OPC_KERNEL(binary_cross_entropy_##name, LossArguments, pointwise<T, BinaryCrossEntropy>)                             \
  OPC_KERNEL(binary_cross_entropy_with_logits_##name, LossArguments, pointwise<T, BinaryCrossEntropyWithLogits>)       \
  OPC_KERNEL(smooth_l1_loss_##name, LossArguments, pointwise<T, SmoothL1>)                                             \
  OPC_KERNEL(kl_div_loss_##name, LossArguments, pointwise<T, KlDiv>)                                                   \
  OPC_KERNEL(sparse_cross_entropy_##name, ClassArguments, sparseLoss<T>)                                               \
  OPC_KERNEL(sparse_cross_entropy_grad_##name, ClassArguments, sparseLossGrad<T>)                                      \
  OPC_KERNEL(nll_##name, ClassArguments, nll<T>)                                                                       \
  OPC_KERNEL(nll_grad_##name, ClassArguments, nllGrad<T>)
OPC_EACH_FLOAT(OPC_LOSSES)

} // namespace opc::cuda
