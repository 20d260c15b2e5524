// layer_norm, rms_norm, group_norm and their gradients by x: a block for what is normalised together.
// SPDX-License-Identifier: Apache-2.0
#include "HeldElements.cuh"
#include "normalization/Norm.cuh"

namespace opc::cuda {
namespace {

constexpr int kHeld = 4; // of a thread: up to 1024 elements that are normalised together are read once

template <class T> __device__ void normRows(const NormArguments &a) {
  using C = Compute<T>;
  const T *x = static_cast<const T *>(a.x);
  for (int64_t g = blockIdx.x; g < a.groups.groups; g += gridDim.x) {
    const auto at = [&a, g](int64_t k) { return elementOf(a, g, k); };
    const auto group = held<kHeld>(x, at, threadIdx.x, a.groups.count, kNormThreads);
    C mean = 0;
    if (a.centered) {
      C own = 0;
      group.each([&](int64_t, C v) { own += v; });
      mean = static_cast<C>(joinBlock(static_cast<double>(own), Add{}) / a.count);
    }
    C own = 0;
    group.each([&](int64_t, C v) {
      const C d = v - mean;
      own += d * d;
    });
    const C variance = static_cast<C>(joinBlock(static_cast<double>(own), Add{}) / a.count);
    const C inverse = C(1) / sqrt(variance + static_cast<C>(a.epsilon));
    if (threadIdx.x == 0) {
      if (a.centered) static_cast<C *>(a.mean)[g] = mean;
      static_cast<C *>(a.inverse)[g] = inverse;
    }
    group.each([&](int64_t e, C v) {
      const int64_t p = parameterOf(a, e);
      C y = (v - mean) * inverse * readOr<T>(a.gamma, p, C(1)) + readOr<T>(a.beta, p, C(0));
      if (a.silu) y = y / (C(1) + exp(-y));
      static_cast<T *>(a.out)[e] = stored<T>(y);
    });
  }
}

/// With d = dy gamma: dx = inverse (d - mean(d) - xhat mean(d xhat)).
template <class T> __device__ void normRowsGrad(const NormArguments &a) {
  using C = Compute<T>;
  const T *x = static_cast<const T *>(a.x), *dy = static_cast<const T *>(a.dy);
  for (int64_t g = blockIdx.x; g < a.groups.groups; g += gridDim.x) {
    const C mean = a.centered ? static_cast<const C *>(a.mean)[g] : C(0),
            inverse = static_cast<const C *>(a.inverse)[g];
    // d and how far x is from the mean
    const auto read = [&](int64_t e) {
      return TwoNumbers<C>{load(dy[e]) * readOr<T>(a.gamma, parameterOf(a, e), C(1)), load(x[e]) - mean};
    };
    const auto at = [&a, g](int64_t k) { return elementOf(a, g, k); };
    const auto group = heldOf<kHeld>(at, read, threadIdx.x, a.groups.count, kNormThreads);
    C total = 0, product = 0;
    group.each([&](int64_t, TwoNumbers<C> v) {
      total += v.a;
      product += v.a * v.b;
    });
    const C shift = a.centered ? static_cast<C>(joinBlock(static_cast<double>(total), Add{}) / a.count) : C(0);
    const C slope = static_cast<C>(joinBlock(static_cast<double>(product), Add{}) / a.count) * inverse * inverse;
    group.each([&](int64_t e, TwoNumbers<C> v) {
      C dx = inverse * (v.a - shift - v.b * slope);
      if (a.add) dx += load(static_cast<const T *>(a.add)[e]);
      static_cast<T *>(a.out)[e] = stored<T>(dx);
    });
  }
}

} // namespace

#define OPC_NORM(name, T)                                                                                              \
  OPC_KERNEL(norm_rows_##name, NormArguments, normRows<T>)                                                             \
  OPC_KERNEL(norm_rows_grad_##name, NormArguments, normRowsGrad<T>)
OPC_EACH_FLOAT(OPC_NORM)

} // namespace opc::cuda
