// The windows of a pooling: which inputs an output sees, and by what a mean divides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PoolGeometry.h"

#include <limits>

namespace opc::ops {

/// The input positions of one output position in one dimension: begin, begin + dilation, ... < end.
struct Window {
  int64_t begin, end;
  bool isEmpty() const { return begin >= end; } // it lies in the padding
};
inline Window clip(const PoolGeometry &g, size_t dim, int64_t position) {
  int64_t begin = position * g.stride[dim] - g.before[dim];
  const int64_t end = std::min(begin + g.dilation[dim] * (g.kernel[dim] - 1) + 1, g.in[dim]);
  if (begin < 0) begin += (-begin + g.dilation[dim] - 1) / g.dilation[dim] * g.dilation[dim];
  return {begin, end};
}

/// A geometry with the divisions done, once, at bind time.
struct PoolTables {
  explicit PoolTables(const PoolGeometry &geometry) : g(geometry) {
    for (size_t dim = 0; dim < 3; ++dim)
      for (int64_t i = 0; i < g.out[dim]; ++i) windows[dim].push_back(clip(g, dim, i));
  }
  PoolGeometry g;
  std::array<std::vector<Window>, 3> windows;
  Window at(size_t dim, int64_t i) const { return windows[dim][static_cast<size_t>(i)]; }
};

template <class T> constexpr T lowest() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

/// NaN wins over everything.
template <class T> bool beats(T v, T best) { return v > best || v != v; }

/// What the sums are divided by, in one dimension: the window's elements inside x, or inside x and its padding.
inline int64_t extent(const PoolGeometry &g, size_t dim, int64_t position, bool withPadding) {
  const int64_t begin = position * g.stride[dim] - g.before[dim];
  const int64_t end = begin + g.kernel[dim];
  if (withPadding) return std::min(end, g.in[dim] + g.after[dim]) - begin;
  return std::max<int64_t>(0, std::min(end, g.in[dim]) - std::max<int64_t>(begin, 0));
}

/// Window i of an adaptive pooling.
inline Window adaptiveWindow(const PoolGeometry &g, size_t dim, int64_t i) {
  return Window{i * g.in[dim] / g.out[dim], ((i + 1) * g.in[dim] + g.out[dim] - 1) / g.out[dim]};
}

/// Planes of one channel: where they begin in x and y, and the distance of neighbours.
struct Planes {
  explicit Planes(const PoolGeometry &g) : g(g), count(g.batch * g.channels), step(g.channelsLast ? g.channels : 1) {}
  int64_t in(int64_t plane) const { return at(plane, g.inPlane()); }
  int64_t out(int64_t plane) const { return at(plane, g.outPlane()); }
  int64_t at(int64_t plane, int64_t size) const {
    if (!g.channelsLast) return plane * size;
    return plane / g.channels * size * g.channels + plane % g.channels;
  }
  const PoolGeometry &g;
  int64_t count, step;
};

/// The first largest element of a window (NaN wins) and its position in a plane of neighbours `step` apart. Written
/// without branches on values: which element wins is anybody's guess.
template <class T> struct Found {
  T value;
  int64_t where;
};
template <class T>
Found<T> largestOf(const PoolGeometry &g, const T *plane, int64_t step, Window d, Window h, Window w) {
  int64_t where = (std::min(d.begin, g.in[0] - 1) * g.in[1] + std::min(h.begin, g.in[1] - 1)) * g.in[2] +
                  std::min(w.begin, g.in[2] - 1);
  T best = lowest<T>();
  for (int64_t id = d.begin; id < d.end; id += g.dilation[0])
    for (int64_t ih = h.begin; ih < h.end; ih += g.dilation[1]) {
      const int64_t row = (id * g.in[1] + ih) * g.in[2];
      for (int64_t iw = w.begin; iw < w.end; iw += g.dilation[2]) {
        const T v = plane[(row + iw) * step];
        const bool wins = (v > best) | ((v != v) & (best == best));
        best = wins ? v : best;
        where = wins ? row + iw : where;
      }
    }
  return {best, where};
}

} // namespace opc::ops
