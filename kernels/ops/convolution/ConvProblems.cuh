// The three products of matrices that a convolution and its gradients are, without the matrices: rows, columns and
// steps of each are found in the tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "convolution/ConvArguments.h"

namespace opc::cuda {

using ops::ConvArguments;

/// A channel (or filter, or sample) and three spatial indices.
struct Place {
  int64_t c, d, h, w;
  bool inside;
};
/// Place number i of c x size; the channel is the innermost one or the outermost.
template <bool kLast> __device__ inline Place place(int64_t i, int64_t c, const int64_t *size) {
  Place p;
  int64_t rest = i;
  if (kLast) {
    p.c = rest % c;
    rest /= c;
  }
  p.w = rest % size[2];
  rest /= size[2];
  p.h = rest % size[1];
  rest /= size[1];
  if (kLast) {
    p.d = rest;
    p.inside = rest < size[0];
  } else {
    p.d = rest % size[0];
    p.c = rest / size[0];
    p.inside = p.c < c;
  }
  return p;
}
__device__ inline int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }
__device__ inline int64_t at(const Place &p, const int64_t *strides) {
  return p.d * strides[2] + p.h * strides[3] + p.w * strides[4];
}

/// Where in x the tap of a window lies; false outside.
__device__ inline bool seen(const ConvArguments &a, const Place &position, const Place &tap, int64_t *offset) {
  const int64_t d = position.d * a.stride[0] + tap.d * a.dilation[0] - a.padding[0];
  const int64_t h = position.h * a.stride[1] + tap.h * a.dilation[1] - a.padding[1];
  const int64_t w = position.w * a.stride[2] + tap.w * a.dilation[2] - a.padding[2];
  *offset = d * a.xs[2] + h * a.xs[3] + w * a.xs[4];
  return d >= 0 && d < a.in[0] && h >= 0 && h < a.in[1] && w >= 0 && w < a.in[2];
}
/// The index in y of a window whose tap is at an index of x, in one dimension; false where there is none.
__device__ inline bool reached(int64_t index, int64_t tap, int64_t stride, int64_t dilation, int64_t padding,
                               int64_t size, int64_t *out) {
  const int64_t from = index + padding - tap * dilation;
  *out = from / stride;
  return from >= 0 && *out < size && from % stride == 0;
}

/// Rows: samples and positions of y; columns: filters of the group; steps: channels and taps.
template <class T, bool kLastLayout> struct ForwardProblem {
  using Element = T;
  using Acc = Compute<T>;
  // Whether neighbouring steps are neighbours in memory, of either operand; whether neighbouring rows are in the
  // result.
  static constexpr bool kLast = kLastLayout, kStepsA = kLast, kStepsB = true, kRowsOut = !kLast;
  const ConvArguments &a;
  int64_t group;
  __device__ int64_t rows() const { return a.batch * volume(a.size); }
  __device__ int64_t columns() const { return a.perGroup; }
  __device__ int64_t steps() const { return a.own * volume(a.kernel); }
  __device__ int64_t parts() const { return a.groups; }
  __device__ void part(int64_t z) { group = z; }
  __device__ int64_t firstStep() const { return 0; }
  __device__ int64_t endStep() const { return steps(); }
  __device__ Place row(int64_t m) const { return place<false>(m, a.batch, a.size); }
  __device__ Place column(int64_t n) const { return {n + group * a.perGroup, 0, 0, 0, n < a.perGroup}; }
  __device__ Place step(int64_t k) const { return place<kLast>(k, a.own, a.kernel); }
  __device__ Acc left(const Place &m, const Place &k) const {
    int64_t offset;
    if (!m.inside || !k.inside || !seen(a, m, k, &offset)) return 0;
    return load(static_cast<const T *>(a.x)[m.c * a.xs[0] + (group * a.own + k.c) * a.xs[1] + offset]);
  }
  __device__ Acc right(const Place &n, const Place &k) const {
    if (!n.inside || !k.inside) return 0;
    return load(static_cast<const T *>(a.weight)[n.c * a.ws[0] + k.c * a.ws[1] + at(k, a.ws)]);
  }
  __device__ void store(const Place &m, const Place &n, Acc value) const {
    const int64_t to = m.c * a.ys[0] + n.c * a.ys[1] + at(m, a.ys);
    if (a.bias) value += load(static_cast<const T *>(a.bias)[n.c]);
    if (a.add) value += load(static_cast<const T *>(a.add)[to]);
    static_cast<T *>(a.out)[to] = stored<T>(value);
  }
};

/// Rows: samples and positions of x; columns: channels of the group; steps: filters of the group and taps.
template <class T, bool kLastLayout> struct DataProblem {
  using Element = T;
  using Acc = Compute<T>;
  static constexpr bool kLast = kLastLayout, kStepsA = kLast, kStepsB = !kLast, kRowsOut = !kLast;
  const ConvArguments &a;
  int64_t group;
  __device__ int64_t rows() const { return a.batch * volume(a.in); }
  __device__ int64_t columns() const { return a.own; }
  __device__ int64_t steps() const { return a.perGroup * volume(a.kernel); }
  __device__ int64_t parts() const { return a.groups; }
  __device__ void part(int64_t z) { group = z; }
  __device__ int64_t firstStep() const { return 0; }
  __device__ int64_t endStep() const { return steps(); }
  __device__ Place row(int64_t m) const { return place<false>(m, a.batch, a.in); }
  __device__ Place column(int64_t n) const { return {n, 0, 0, 0, n < a.own}; }
  __device__ Place step(int64_t k) const { return place<kLast>(k, a.perGroup, a.kernel); }
  __device__ Acc left(const Place &m, const Place &k) const {
    Place from{};
    if (!m.inside || !k.inside || !reached(m.d, k.d, a.stride[0], a.dilation[0], a.padding[0], a.size[0], &from.d) ||
        !reached(m.h, k.h, a.stride[1], a.dilation[1], a.padding[1], a.size[1], &from.h) ||
        !reached(m.w, k.w, a.stride[2], a.dilation[2], a.padding[2], a.size[2], &from.w))
      return 0;
    return load(static_cast<const T *>(a.y)[m.c * a.ys[0] + (group * a.perGroup + k.c) * a.ys[1] + at(from, a.ys)]);
  }
  __device__ Acc right(const Place &n, const Place &k) const {
    if (!n.inside || !k.inside) return 0;
    return load(static_cast<const T *>(a.weight)[(group * a.perGroup + k.c) * a.ws[0] + n.c * a.ws[1] + at(k, a.ws)]);
  }
  __device__ void store(const Place &m, const Place &n, Acc value) const {
    const int64_t to = m.c * a.xs[0] + (group * a.own + n.c) * a.xs[1] + at(m, a.xs);
    if (a.add) value += load(static_cast<const T *>(a.add)[to]);
    static_cast<T *>(a.out)[to] = stored<T>(value);
  }
};

/// Rows: filters of the group; columns: channels and taps; steps: samples and positions of y, in slices.
template <class T, bool kLastLayout> struct FilterProblem {
  using Element = T;
  using Acc = Compute<T>;
  static constexpr bool kLast = kLastLayout, kStepsA = !kLast, kStepsB = !kLast, kRowsOut = false;
  const ConvArguments &a;
  int64_t group, slice;
  __device__ int64_t rows() const { return a.perGroup; }
  __device__ int64_t columns() const { return a.own * volume(a.kernel); }
  __device__ int64_t steps() const { return a.batch * volume(a.size); }
  __device__ int64_t parts() const { return a.groups * a.sliceCount; }
  __device__ void part(int64_t z) {
    group = z / a.sliceCount;
    slice = z % a.sliceCount;
  }
  __device__ int64_t firstStep() const { return slice * a.sliceLength; }
  __device__ int64_t endStep() const {
    const int64_t end = firstStep() + a.sliceLength;
    return end < steps() ? end : steps();
  }
  __device__ Place row(int64_t m) const { return {m + group * a.perGroup, 0, 0, 0, m < a.perGroup}; }
  __device__ Place column(int64_t n) const { return place<kLast>(n, a.own, a.kernel); }
  __device__ Place step(int64_t k) const { return place<false>(k, a.batch, a.size); }
  __device__ Acc left(const Place &m, const Place &k) const {
    if (!m.inside || !k.inside) return 0;
    return load(static_cast<const T *>(a.y)[k.c * a.ys[0] + m.c * a.ys[1] + at(k, a.ys)]);
  }
  __device__ Acc right(const Place &n, const Place &k) const {
    int64_t offset;
    if (!n.inside || !k.inside || !seen(a, k, n, &offset)) return 0;
    return load(static_cast<const T *>(a.x)[k.c * a.xs[0] + (group * a.own + n.c) * a.xs[1] + offset]);
  }
  __device__ void store(const Place &m, const Place &n, Acc value) const {
    const int64_t to = m.c * a.ws[0] + n.c * a.ws[1] + at(n, a.ws);
    if (a.slices)
      static_cast<Acc *>(a.slices)[slice * a.groups * a.perGroup * columns() + to] = value;
    else
      static_cast<T *>(a.out)[to] = stored<T>(value);
  }
};

} // namespace opc::cuda
