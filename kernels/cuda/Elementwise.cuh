// The loops around a scalar function: over whole tensors in accesses of 16 bytes, over broadcast ones by index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "ElementwiseArguments.h"

namespace opc::cuda {

using scalar::Functions;
using scalar::Mask;
using scalar::Number;

// A derivative may take a truth value as a number, and the other way round.
template <class T> __device__ inline Number<T> asNumber(Number<T> v) { return v; }
template <class T> __device__ inline Number<T> asNumber(Mask<T> v) { return Number<T>(v.value ? 1 : 0); }
template <class T> __device__ inline Mask<T> asTruth(Number<T> v) { return Mask<T>(v.value != T(0)); }
template <class T> __device__ inline Mask<T> asTruth(Mask<T> v) { return v; }

/// F: kInputs, kParameters, kIsLong and apply(const Number<C> *parameters).
template <class F, class T, class O> struct ElementwiseLoop {
  using C = Compute<T>;
  using N = Number<C>;
  static constexpr int kInputs = F::kInputs;
  static constexpr int kParameters = F::kParameters;
  static constexpr int kFitting = static_cast<int>(16 / (sizeof(T) > sizeof(O) ? sizeof(T) : sizeof(O)));
  /// Elements of an access: 16 bytes of what is wide. Functions that take long gain nothing by it.
  static constexpr int kWidth = F::kIsLong ? 1 : kFitting < 4 ? kFitting : 4;

  static __device__ O result(const N *p) { return stored<O>(F::template apply<C>(p).value); }

  /// A single input has the output's elements.
  static __device__ bool isWhole(const ElementwiseArguments &a, int k) { return kInputs == 1 || (a.whole >> k & 1u); }

  /// The elements that fill accesses; returns how many.
  static __device__ int64_t packed(const ElementwiseArguments &a, N *p) {
    const int64_t packs = a.n / kWidth;
    for (int k = 0; k < kInputs; ++k)
      if (!isWhole(a, k)) p[k] = N(load(*static_cast<const T *>(a.in[k])));
#pragma unroll 1
    for (int64_t i = firstItem(); i < packs; i += itemStep()) {
      Pack<T, kWidth> x[kInputs];
      Pack<O, kWidth> y;
#pragma unroll
      for (int k = 0; k < kInputs; ++k)
        if (isWhole(a, k)) x[k] = static_cast<const Pack<T, kWidth> *>(a.in[k])[i];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
#pragma unroll
        for (int k = 0; k < kInputs; ++k)
          if (isWhole(a, k)) p[k] = N(load(x[k].v[j]));
        y.v[j] = result(p);
      }
      static_cast<Pack<O, kWidth> *>(a.out)[i] = y;
    }
    return packs * kWidth;
  }

  static __device__ void run(const ElementwiseArguments &a) {
    N p[kParameters];
    for (int k = kInputs; k < kParameters; ++k) p[k] = N(reinterpret_cast<const C *>(a.parameters)[k]);
    int64_t begin = 0;
    if constexpr (kWidth > 1)
      if (a.rank == 0 && a.isAligned) begin = packed(a, p);
#pragma unroll 1
    for (int64_t i = begin + firstItem(); i < a.n; i += itemStep()) {
      int64_t at[kInputs] = {}, rest = i;
      if (a.rank == 0)
        for (int k = 0; k < kInputs; ++k) at[k] = isWhole(a, k) ? i : 0;
      if constexpr (kInputs > 1) {
#pragma unroll 1
        for (int d = a.rank; d-- > 0;) {
          const int64_t index = rest % a.dims[d];
          rest /= a.dims[d];
          for (int k = 0; k < kInputs; ++k) at[k] += index * a.strides[k][d];
        }
      }
      for (int k = 0; k < kInputs; ++k) p[k] = N(load(static_cast<const T *>(a.in[k])[at[k]]));
      static_cast<O *>(a.out)[i] = result(p);
    }
  }
};

#define OPC_ELEMENTWISE_KERNEL(name, F, T, O)                                                                          \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ ElementwiseArguments arguments) {     \
    ElementwiseLoop<F, T, O>::run(arguments);                                                                          \
  }

} // namespace opc::cuda
