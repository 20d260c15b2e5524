// The windows of a pooling: which inputs an output sees, and by what a mean divides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PoolGeometry.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace opc::ops {

/// The input positions of one output position in one dimension: begin, begin + dilation, ... < end.
struct Window {
  int64_t begin, end;
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

} // namespace opc::ops
