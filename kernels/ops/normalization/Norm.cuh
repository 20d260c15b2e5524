// What the device code of normalisations shares: where things are, and sums over the threads of a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BlockJoin.cuh"
#include "DeviceTypes.cuh"
#include "normalization/NormArguments.h"

namespace opc::cuda {

using ops::NormArguments;
using ops::NormVector;

constexpr int kNormThreads = kJoinThreads;

template <class T> __device__ Compute<T> read(const NormVector &v, int64_t i) {
  return v.likeX ? load(static_cast<const T *>(v.data)[i]) : static_cast<const Compute<T> *>(v.data)[i];
}
template <class T> __device__ void write(const NormVector &v, int64_t i, Compute<T> value) {
  if (v.likeX)
    static_cast<T *>(v.data)[i] = stored<T>(value);
  else
    static_cast<Compute<T> *>(v.data)[i] = value;
}
template <class T> __device__ Compute<T> readOr(const NormVector &v, int64_t i, Compute<T> otherwise) {
  return v.data ? read<T>(v, i) : otherwise;
}

__device__ inline int64_t parameterOf(const NormArguments &a, int64_t e) {
  return e / a.places.parameterInner % a.places.parameters;
}
__device__ inline int64_t statisticOf(const NormArguments &a, int64_t e) {
  return e / a.places.sample * a.places.perSample +
         e % a.places.sample / a.places.inner % a.places.channels / a.places.own;
}
__device__ inline int64_t elementOf(const NormArguments &a, int64_t g, int64_t k) {
  return g / a.groups.perOuter * a.groups.outerStep + g % a.groups.perOuter * a.groups.innerStep +
         k / a.groups.run * a.groups.runStep + k % a.groups.run;
}

/// The sum over the threads that are the same modulo `width`, in an order that depends on width alone; every thread
/// of a residue gets it. All threads of the block take part.
__device__ inline double blockSum(double own, int width) {
  __shared__ double shares[kNormThreads];
  const int t = static_cast<int>(threadIdx.x);
  shares[t] = own;
  __syncthreads();
  for (int half = kNormThreads / 2; half >= width; half /= 2) {
    if (t < half) shares[t] += shares[t + half];
    __syncthreads();
  }
  const double sum = shares[t % width];
  __syncthreads(); // all have read it before the next sum is written
  return sum;
}

} // namespace opc::cuda
