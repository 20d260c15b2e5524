// One value of the values of a block's threads, always in the same order: of threads 128 apart, then 64, and so on to
// neighbours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::cuda {

constexpr int kJoinThreads = 256, kJoinWarps = kJoinThreads / 32;

/// In thread 0, of `parts` that all threads have written before a barrier; the first warp calls it.
template <class A, class F> __device__ inline A joinParts(const A *parts, F join) {
  A part[kJoinWarps];
#pragma unroll
  for (int k = 0; k < kJoinWarps; ++k) part[k] = parts[threadIdx.x + 32 * k];
#pragma unroll
  for (int half = kJoinWarps / 2; half > 0; half /= 2)
#pragma unroll
    for (int k = 0; k < half; ++k) part[k] = join(part[k], part[k + half]);
  A value = part[0];
#pragma unroll
  for (int half = 16; half > 0; half /= 2)
    value = join(value, static_cast<A>(__shfl_down_sync(0xffffffffu, value, half)));
  return value;
}

/// In all threads. A later call finds its memory free: `parts` are read before the second barrier, `all` before the
/// first one of the next call.
template <class A, class F> __device__ inline A joinBlock(A value, F join) {
  __shared__ A parts[kJoinThreads], all;
  parts[threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    const A joined = joinParts(parts, join);
    if (threadIdx.x == 0) all = joined;
  }
  __syncthreads();
  return all;
}

/// In thread 0, once in a kernel, or where a barrier stands before the next time.
template <class A, class F> __device__ inline A joinOnce(A value, F join) {
  __shared__ A parts[kJoinThreads];
  parts[threadIdx.x] = value;
  __syncthreads();
  return threadIdx.x < 32 ? joinParts(parts, join) : value;
}

struct Add {
  template <class A> __device__ A operator()(A a, A b) const { return a + b; }
};

} // namespace opc::cuda
