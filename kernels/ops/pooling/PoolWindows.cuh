// The windows of poolings in device code: as in pooling/PoolWindows.h, and the windows that see an element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "pooling/PoolArguments.h"

namespace opc::cuda {

using ops::PoolArguments;

/// begin, begin + step, ... < end.
struct Range {
  int64_t begin, end, step;
  __device__ int64_t length() const { return end - begin; }
};

__device__ inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
__device__ inline int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

/// The inputs of output i in one dimension.
__device__ inline Range windowOf(const PoolArguments &a, int dim, int64_t i) {
  if (a.adaptive) return {i * a.in[dim] / a.size[dim], ((i + 1) * a.in[dim] + a.size[dim] - 1) / a.size[dim], 1};
  const int64_t step = a.dilation[dim];
  int64_t begin = i * a.stride[dim] - a.before[dim];
  const int64_t end = lesser(begin + step * (a.kernel[dim] - 1) + 1, a.in[dim]);
  if (begin < 0) begin += (-begin + step - 1) / step * step;
  return {begin, end, step};
}
/// The outputs whose window may hold input i: all that do, and with a dilation others (see `holds`).
__device__ inline Range windowsAt(const PoolArguments &a, int dim, int64_t i) {
  if (a.adaptive) return {i * a.size[dim] / a.in[dim], ((i + 1) * a.size[dim] + a.in[dim] - 1) / a.in[dim], 1};
  const int64_t padded = i + a.before[dim], behind = padded - a.dilation[dim] * (a.kernel[dim] - 1);
  const int64_t first = behind <= 0 ? 0 : (behind + a.stride[dim] - 1) / a.stride[dim];
  return {first, lesser(padded / a.stride[dim] + 1, a.size[dim]), 1};
}
__device__ inline bool holds(const PoolArguments &a, int dim, int64_t output, int64_t i) {
  return a.adaptive || (i + a.before[dim] - output * a.stride[dim]) % a.dilation[dim] == 0;
}

/// What a sum is divided by, in one dimension.
__device__ inline int64_t extentOf(const PoolArguments &a, int dim, int64_t i) {
  if (a.adaptive) return windowOf(a, dim, i).length();
  const int64_t begin = i * a.stride[dim] - a.before[dim], end = begin + a.kernel[dim];
  if (a.withPadding) return lesser(end, a.in[dim] + a.after[dim]) - begin;
  return greater(0, lesser(end, a.in[dim]) - greater(begin, 0));
}

/// A position in a plane, and where planes begin.
struct Position {
  int64_t plane, d, h, w;
};
/// Position number i of a tensor in the order of its memory, `size` elements a plane.
__device__ inline Position positionOf(const PoolArguments &a, int64_t i, const int64_t *size) {
  Position p;
  int64_t channel = 0, rest = i;
  if (a.channelsLast) {
    channel = rest % a.channels;
    rest /= a.channels;
  }
  p.w = rest % size[2];
  rest /= size[2];
  p.h = rest % size[1];
  rest /= size[1];
  p.d = rest % size[0];
  rest /= size[0];
  p.plane = a.channelsLast ? rest * a.channels + channel : rest;
  return p;
}
__device__ inline int64_t count(const int64_t *size) { return size[0] * size[1] * size[2]; }
__device__ inline int64_t stepOf(const PoolArguments &a) { return a.channelsLast ? a.channels : 1; }
__device__ inline int64_t beginOf(const PoolArguments &a, int64_t plane, int64_t size) {
  return a.channelsLast ? plane / a.channels * size * a.channels + plane % a.channels : plane * size;
}

template <class C> __device__ C lowest() {
  if constexpr (std::is_same_v<C, float>)
    return -scalar::f32::kInf;
  else if constexpr (std::is_same_v<C, double>)
    return -scalar::f32::kInf64;
  else
    return std::numeric_limits<C>::lowest();
}

/// The first largest element of a window (NaN wins) and its position in the plane.
template <class T> struct Largest {
  T value;
  int64_t where;
};
/// Whether a window lies in the padding, where no element is its largest.
__device__ inline bool seesNothing(const PoolArguments &a, int64_t od, int64_t oh, int64_t ow) {
  const Range d = windowOf(a, 0, od), h = windowOf(a, 1, oh), w = windowOf(a, 2, ow);
  return d.begin >= d.end || h.begin >= h.end || w.begin >= w.end;
}
template <class T>
__device__ Largest<T> largestOf(const PoolArguments &a, const T *plane, int64_t od, int64_t oh, int64_t ow) {
  using C = Compute<T>;
  const Range d = windowOf(a, 0, od), h = windowOf(a, 1, oh), w = windowOf(a, 2, ow);
  const int64_t step = stepOf(a);
  int64_t where =
      (lesser(d.begin, a.in[0] - 1) * a.in[1] + lesser(h.begin, a.in[1] - 1)) * a.in[2] + lesser(w.begin, a.in[2] - 1);
  C best = lowest<C>();
  for (int64_t id = d.begin; id < d.end; id += d.step)
    for (int64_t ih = h.begin; ih < h.end; ih += h.step)
      for (int64_t iw = w.begin; iw < w.end; iw += w.step) {
        const int64_t at = (id * a.in[1] + ih) * a.in[2] + iw;
        const C v = load(plane[at * step]);
        if (v > best || (v != v && best == best)) {
          best = v;
          where = at;
        }
      }
  return {stored<T>(best), where};
}

} // namespace opc::cuda
