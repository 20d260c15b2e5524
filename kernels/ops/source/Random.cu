// Random numbers, dropout: the words that the CPU draws, each by its place in the whole.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "opc/Philox.h"
#include "source/RandomArguments.h"

namespace opc::cuda {
namespace {

using ops::RandomArguments;

/// Numbers of a block of four words.
template <class F> constexpr int kPerBlock = sizeof(F) == 8 ? 2 : 4;

template <class F> __device__ void unitNumbers(const RandomArguments &a, int64_t block, F *u) {
  const Philox::Block w = Philox::at(a.key, a.stream, static_cast<uint64_t>(block));
  if constexpr (sizeof(F) == 8) {
    u[0] = Philox::unitDouble(w[0], w[1]);
    u[1] = Philox::unitDouble(w[2], w[3]);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k) u[k] = Philox::unitFloat(w[k]);
  }
}

/// body(element, number) for each; `change` may make others of all numbers of a block first.
template <class F, class Body, class Change>
__device__ void forNumbers(const RandomArguments &a, Body body, Change change) {
  constexpr int kPer = kPerBlock<F>;
  F u[kPer];
  if (a.isWhole) {
#pragma unroll 1
    for (int64_t i = firstItem(); i * kPer < a.n; i += itemStep()) {
      unitNumbers(a, i, u);
      change(u);
#pragma unroll
      for (int k = 0; k < kPer; ++k)
        if (i * kPer + k < a.n) body(i * kPer + k, u[k]);
    }
    return;
  }
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    int64_t at = a.offset + i % a.length, run = i / a.length;
#pragma unroll 1
    for (int d = a.rank; d-- > 0; run /= a.sizes[d]) at += run % a.sizes[d] * a.strides[d];
    unitNumbers(a, at / kPer, u);
    change(u);
    F mine = u[0];
#pragma unroll
    for (int k = 1; k < kPer; ++k) mine = at % kPer == k ? u[k] : mine;
    body(i, mine);
  }
}
template <class F, class Body> __device__ void forNumbers(const RandomArguments &a, Body body) {
  forNumbers<F>(a, body, [](F *) {});
}

template <class T> __device__ void uniform(const RandomArguments &a) {
  using F = Compute<T>;
  const F shift = static_cast<F>(a.a), scale = static_cast<F>(a.b - a.a), top = static_cast<F>(a.b);
  forNumbers<F>(a, [=](int64_t i, F u) {
    F v = shift + u * scale;
    if (v >= top && top > shift) v = shift; // rounding must not reach the open end
    static_cast<T *>(a.out)[i] = stored<T>(v);
  });
}

/// Box and Muller's pairs.
template <class T> __device__ void normal(const RandomArguments &a) {
  using F = Compute<T>;
  const F shift = static_cast<F>(a.a), scale = static_cast<F>(a.b);
  forNumbers<F>(
      a, [=](int64_t i, F u) { static_cast<T *>(a.out)[i] = stored<T>(static_cast<F>(shift + u * scale)); },
      [](F *u) {
#pragma unroll
        for (int k = 0; k < kPerBlock<F>; k += 2) {
          const F r = sqrt(F(-2) * log(F(1) - u[k])), angle = F(6.283185307179586476925) * u[k + 1];
          u[k] = r * cos(angle);
          u[k + 1] = r * sin(angle);
        }
      });
}

template <class T> __device__ void dropout(const RandomArguments &a) {
  using F = Compute<T>;
  const F scale = static_cast<F>(a.a);
  forNumbers<float>(a, [=](int64_t i, float u) {
    const bool isKept = u >= a.rate;
    static_cast<bool *>(a.mask)[i] = isKept;
    F v = isKept ? static_cast<F>(load(static_cast<const T *>(a.in)[i]) * scale) : F(0);
    if (a.add) v += load(static_cast<const T *>(a.add)[i]);
    static_cast<T *>(a.out)[i] = stored<T>(v);
  });
}

template <class T> __device__ void dropoutGrad(const void *dy, const bool *mask, void *dx, double scale, int64_t n) {
  using F = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    const F v = load(static_cast<const T *>(dy)[i]);
    static_cast<T *>(dx)[i] = stored<T>(mask[i] ? static_cast<F>(v * static_cast<F>(scale)) : F(0));
  }
}

template <class T> __device__ void bernoulli(const RandomArguments &a) {
  forNumbers<float>(a, [=](int64_t i, float u) {
    const double p = a.a >= 0 ? a.a : static_cast<double>(load(static_cast<const T *>(a.in)[i]));
    const bool hit = static_cast<double>(u) < p;
    if (a.givesBool)
      static_cast<bool *>(a.out)[i] = hit;
    else
      static_cast<T *>(a.out)[i] = stored<T>(Compute<T>(hit ? 1 : 0));
  });
}

} // namespace

extern "C" __global__ void __launch_bounds__(256, 1) random_mask(const __grid_constant__ RandomArguments a) {
  forNumbers<float>(a, [=](int64_t i, float u) { static_cast<bool *>(a.out)[i] = u >= a.rate; });
}

/// The place with which place i is exchanged, for each of n.
extern "C" __global__ void __launch_bounds__(256, 1)
    randperm_places(uint64_t key, uint64_t stream, int32_t *places, int64_t n) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    const Philox::Block w = Philox::at(key, stream, static_cast<uint64_t>(i));
    const uint64_t bits = static_cast<uint64_t>(w[0]) << 32 | w[1];
    places[i] = static_cast<int32_t>(__umul64hi(bits, static_cast<uint64_t>(i) + 1));
  }
}
/// Fisher and Yates' exchanges, one after the other, as each depends on those before it; in shared memory when there is
/// room.
extern "C" __global__ void __launch_bounds__(256, 1)
    randperm(const int32_t *places, int32_t *numbers, int32_t *out, int64_t n, int64_t begin, int64_t count,
             int32_t isShared) {
  extern __shared__ int32_t shared[];
  int32_t *to = isShared ? shared : numbers;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = static_cast<int32_t>(i);
  __syncthreads();
  if (threadIdx.x == 0)
    for (int64_t i = n - 1; i > 0; --i) {
      const int32_t at = places[i], number = to[i];
      to[i] = to[at];
      to[at] = number;
    }
  __syncthreads();
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) out[i] = to[begin + i];
}

#define OPC_RANDOMS(name, T)                                                                                           \
  OPC_KERNEL(uniform_##name, RandomArguments, uniform<T>)                                                              \
  OPC_KERNEL(normal_##name, RandomArguments, normal<T>)                                                                \
  OPC_KERNEL(dropout_##name, RandomArguments, dropout<T>)                                                              \
  OPC_KERNEL(bernoulli_##name, RandomArguments, bernoulli<T>)                                                          \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      dropout_grad_##name(const void *dy, const bool *mask, void *dx, double scale, int64_t n) {                       \
    dropoutGrad<T>(dy, mask, dx, scale, n);                                                                            \
  }
OPC_EACH_FLOAT(OPC_RANDOMS)

} // namespace opc::cuda
