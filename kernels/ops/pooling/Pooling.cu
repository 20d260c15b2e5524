// Poolings and their gradients: a thread for each result, except where maxima are scattered.
// SPDX-License-Identifier: Apache-2.0
#include "IndexFault.cuh"
#include "pooling/PoolWindows.cuh"

namespace opc::cuda {
namespace {

constexpr int kThreads = 256;

template <class T> __device__ void maxPool(const PoolArguments &a) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.planes * count(a.size); i += itemStep()) {
    const Position p = positionOf(a, i, a.size);
    const auto found = largestOf(a, static_cast<const T *>(a.x) + beginOf(a, p.plane, count(a.in)), p.d, p.h, p.w);
    static_cast<T *>(a.out)[i] = found.value;
    if (a.indicesOut) a.indicesOut[i] = found.where;
  }
}

template <class T> __device__ void avgPool(const PoolArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.planes * count(a.size); i += itemStep()) {
    const Position p = positionOf(a, i, a.size);
    const T *plane = static_cast<const T *>(a.x) + beginOf(a, p.plane, count(a.in));
    const Range d = windowOf(a, 0, p.d), h = windowOf(a, 1, p.h), w = windowOf(a, 2, p.w);
    C sum = 0;
    for (int64_t id = d.begin; id < d.end; ++id)
      for (int64_t ih = h.begin; ih < h.end; ++ih)
        for (int64_t iw = w.begin; iw < w.end; ++iw)
          sum += load(plane[((id * a.in[1] + ih) * a.in[2] + iw) * stepOf(a)]);
    const int64_t by = a.divisor ? a.divisor : extentOf(a, 0, p.d) * extentOf(a, 1, p.h) * extentOf(a, 2, p.w);
    static_cast<T *>(a.out)[i] = stored<T>(static_cast<C>(sum / static_cast<C>(by)));
  }
}

/// Calls f(d, h, w, place in y's plane) for the outputs that see an element of x.
template <class F> __device__ void forWindowsAt(const PoolArguments &a, const Position &p, F f) {
  const Range d = windowsAt(a, 0, p.d), h = windowsAt(a, 1, p.h), w = windowsAt(a, 2, p.w);
  for (int64_t od = d.begin; od < d.end; ++od)
    for (int64_t oh = h.begin; oh < h.end; ++oh)
      for (int64_t ow = w.begin; ow < w.end; ++ow)
        if (holds(a, 0, od, p.d) && holds(a, 1, oh, p.h) && holds(a, 2, ow, p.w))
          f(od, oh, ow, (od * a.size[1] + oh) * a.size[2] + ow);
}

/// Each element of dx gathers from the windows that it is in.
template <class T> __device__ void avgPoolGrad(const PoolArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.planes * count(a.in); i += itemStep()) {
    const Position p = positionOf(a, i, a.in);
    const T *dy = static_cast<const T *>(a.dy) + beginOf(a, p.plane, count(a.size));
    C sum = 0;
    forWindowsAt(a, p, [&](int64_t od, int64_t oh, int64_t ow, int64_t o) {
      const int64_t by = a.divisor ? a.divisor : extentOf(a, 0, od) * extentOf(a, 1, oh) * extentOf(a, 2, ow);
      sum += load(dy[o * stepOf(a)]) / static_cast<C>(by);
    });
    static_cast<T *>(a.out)[i] = stored<T>(sum);
  }
}

template <class T> __device__ void maxPoolGradGather(const PoolArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.planes * count(a.in); i += itemStep()) {
    const Position p = positionOf(a, i, a.in);
    const T *x = static_cast<const T *>(a.x) + beginOf(a, p.plane, count(a.in));
    const T *dy = static_cast<const T *>(a.dy) + beginOf(a, p.plane, count(a.size));
    const int64_t own = (p.d * a.in[1] + p.h) * a.in[2] + p.w;
    C sum = 0;
    forWindowsAt(a, p, [&](int64_t od, int64_t oh, int64_t ow, int64_t o) {
      if (largestOf(a, x, od, oh, ow).where == own) sum += load(dy[o * stepOf(a)]);
    });
    static_cast<T *>(a.out)[i] = stored<T>(sum);
  }
}

/// With given positions, which may be anywhere, or windows so large that each element would search too many: a block
/// for each part of a plane of dx. All positions are looked at in turn; the one thread that an element belongs to adds.
template <class T> __device__ void maxPoolGradScatter(const PoolArguments &a) {
  using C = Compute<T>;
  constexpr int kPart = 2048;
  __shared__ C sums[kPart], values[kThreads];
  __shared__ int64_t places[kThreads];
  const int t = static_cast<int>(threadIdx.x);
  const int64_t inPlane = count(a.in), outPlane = count(a.size), step = stepOf(a);
  const int64_t parts = (inPlane + kPart - 1) / kPart;
  for (int64_t b = blockIdx.x; b < a.planes * parts; b += gridDim.x) {
    const int64_t plane = b / parts, from = b % parts * kPart;
    const int64_t xBegin = beginOf(a, plane, inPlane), yBegin = beginOf(a, plane, outPlane);
    for (int i = t; i < kPart; i += kThreads) sums[i] = 0;
    for (int64_t o0 = 0; o0 < outPlane; o0 += kThreads) {
      const int64_t o = o0 + t;
      if (o < outPlane) {
        const int64_t at = yBegin + o * step;
        const int64_t od = o / a.size[2] / a.size[1], oh = o / a.size[2] % a.size[1], ow = o % a.size[2];
        int64_t place;
        if (a.indices) {
          place = a.indices[at];
          if (place < 0 || place >= inPlane) {
            reportIndex(a.fault, at, place);
            place = -1;
          }
        } else {
          place = largestOf(a, static_cast<const T *>(a.x) + xBegin, od, oh, ow).where;
        }
        if (seesNothing(a, od, oh, ow)) place = -1;
        places[t] = place;
        values[t] = load(static_cast<const T *>(a.dy)[at]);
      }
      __syncthreads();
      const int many = static_cast<int>(lesser(kThreads, outPlane - o0));
      for (int k = 0; k < many; ++k) {
        const int64_t at = places[k] - from;
        if (at >= 0 && at < kPart && at % kThreads == t) sums[at] += values[k];
      }
      __syncthreads();
    }
    for (int i = t; i < kPart && from + i < inPlane; i += kThreads)
      static_cast<T *>(a.out)[xBegin + (from + i) * step] = stored<T>(sums[i]);
  }
}

} // namespace

#define OPC_POOL(name, T)                                                                                              \
  OPC_KERNEL(max_pool_##name, PoolArguments, maxPool<T>)                                                               \
  OPC_KERNEL(avg_pool_##name, PoolArguments, avgPool<T>)                                                               \
  OPC_KERNEL(max_pool_grad_gather_##name, PoolArguments, maxPoolGradGather<T>)                                         \
  OPC_KERNEL(max_pool_grad_scatter_##name, PoolArguments, maxPoolGradScatter<T>)                                       \
  OPC_KERNEL(avg_pool_grad_##name, PoolArguments, avgPoolGrad<T>)
OPC_EACH_FLOAT(OPC_POOL)
OPC_KERNEL(max_pool_i32, PoolArguments, maxPool<int32_t>)

} // namespace opc::cuda
