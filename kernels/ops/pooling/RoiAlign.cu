// roi_align and its gradient, by the CPU's formulas: a thread for each bin, and, for what adds up in an image, one for
// each of its planes, in the order of the regions.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "IndexFault.cuh"
#include "pooling/RoiArguments.h"

namespace opc::cuda {
namespace {

using ops::RoiArguments;
using ops::RoiBins;
using ops::RoiSample;

/// The image of a region; -1 for an index that is wrong, which is reported.
__device__ int64_t imageOf(const RoiArguments &a, int64_t region) {
  const int64_t index = indexAt(a.indices, a.isWide, region);
  if (index >= 0 && index < a.images) return index;
  reportIndex(a.fault, region, index);
  return -1;
}

/// The samples of a region.
template <class T> struct Region {
  using C = Compute<T>;
  RoiBins<C> rows, columns;
  int64_t width;

  __device__ static C edge(const RoiArguments &a, int64_t i) { return load(static_cast<const T *>(a.rois)[i]); }
  __device__ Region(const RoiArguments &a, int64_t r)
      : rows(a.rows, edge(a, 4 * r + 1), edge(a, 4 * r + 3)), columns(a.columns, edge(a, 4 * r), edge(a, 4 * r + 2)),
        width(a.columns.size) {}
  __device__ bool isEmpty() const { return rows.count == 0 || columns.count == 0; }

  /// Calls f(place in the plane, weight along the columns, along the rows) for the pixels of a bin's samples; whether a
  /// sample is outside the image.
  template <class F> __device__ bool each(int64_t i, int64_t j, F f) const {
    const int64_t top = rows.firstSample(i), bottom = rows.endSample(i);
    const int64_t left = columns.firstSample(j), right = columns.endSample(j);
    bool leaves = top > 0 || bottom < rows.count || left > 0 || right < columns.count;
#pragma unroll 1
    for (int64_t v = top; v < bottom; ++v) {
      const RoiSample<C> row = rows.sample(i, v);
      leaves = leaves || !row.isInside;
#pragma unroll 1
      for (int side = 0; row.isInside && side < 2; ++side) {
        const int64_t begin = (side ? row.high : row.low) * width;
        const C share = side ? row.part : 1 - row.part;
#pragma unroll 1
        for (int64_t h = left; h < right; ++h) {
          const RoiSample<C> column = columns.sample(j, h);
          leaves = leaves || !column.isInside;
          if (!column.isInside) continue;
          f(begin + column.low, 1 - column.part, share);
          f(begin + column.high, column.part, share);
        }
      }
    }
    return leaves;
  }
};

/// The largest of a bin's weighed pixels, and the pixel; -1 where it is 0 of a sample outside, or there is none.
template <class T> struct Largest {
  using C = Compute<T>;
  C value = 0, weight = 0;
  int64_t where = -1;
  __device__ Largest(const Region<T> &region, const T *plane, int64_t i, int64_t j) {
    const bool leaves = region.each(i, j, [&](int64_t at, C across, C down) {
      const C v = across * (down * load(plane[at]));
      if (where >= 0 && !(v > value) && (v == v || value != value)) return;
      value = v, where = at, weight = across * down;
    });
    if (!leaves || !(value <= 0)) return;
    value = 0, where = -1;
  }
};

template <class T> __device__ void roiAlign(const RoiArguments &a) {
  using C = Compute<T>;
  const int64_t bins = a.rows.bins * a.columns.bins, plane = a.rows.size * a.columns.size;
#pragma unroll 1
  for (int64_t o = firstItem(); o < a.regions * a.channels * bins; o += itemStep()) {
    const int64_t r = o / bins / a.channels, c = o / bins % a.channels, i = o % bins / a.columns.bins,
                  j = o % a.columns.bins, image = imageOf(a, r);
    if (image < 0) continue;
    const T *x = static_cast<const T *>(a.x) + (image * a.channels + c) * plane;
    const Region<T> region(a, r);
    C y = 0;
    if (a.isMax && !region.isEmpty()) {
      y = Largest<T>(region, x, i, j).value;
    } else if (!region.isEmpty()) {
      region.each(i, j, [&](int64_t at, C across, C down) { y += across * (down * load(x[at])); });
      y = y / static_cast<C>(region.rows.count) / static_cast<C>(region.columns.count);
    }
    static_cast<T *>(a.out)[o] = stored<T>(y);
  }
}

template <class T> __device__ void roiAlignGrad(const RoiArguments &a) {
  using C = Compute<T>;
  const int64_t bins = a.rows.bins * a.columns.bins, plane = a.rows.size * a.columns.size;
  C *sums = static_cast<C *>(sizeof(T) == 2 ? static_cast<void *>(a.sums) : a.out);
#pragma unroll 1
  for (int64_t p = firstItem(); p < a.images * a.channels; p += itemStep()) {
    const T *x = static_cast<const T *>(a.x) + p * plane;
    C *dx = sums + p * plane;
#pragma unroll 1
    for (int64_t k = 0; k < plane; ++k) dx[k] = 0;
#pragma unroll 1
    for (int64_t r = 0; r < a.regions; ++r) {
      if (imageOf(a, r) != p / a.channels) continue;
      const Region<T> region(a, r);
      if (region.isEmpty()) continue;
#pragma unroll 1
      for (int64_t o = 0; o < bins; ++o) {
        const int64_t i = o / a.columns.bins, j = o % a.columns.bins;
        const C d = load(static_cast<const T *>(a.dy)[(r * a.channels + p % a.channels) * bins + o]);
        if (a.isMax) {
          const Largest<T> largest(region, x, i, j);
          if (largest.where >= 0) dx[largest.where] += largest.weight * d;
          continue;
        }
        const C share = d / static_cast<C>(region.rows.count) / static_cast<C>(region.columns.count);
        region.each(i, j, [&](int64_t at, C across, C down) { dx[at] += across * (down * share); });
      }
    }
    if constexpr (sizeof(T) == 2)
#pragma unroll 1
      for (int64_t k = 0; k < plane; ++k) static_cast<T *>(a.out)[p * plane + k] = stored<T>(dx[k]);
  }
}

} // namespace

#define OPC_ROIS(name, T)                                                                                              \
  OPC_KERNEL(roi_align_##name, RoiArguments, roiAlign<T>)                                                              \
  OPC_KERNEL(roi_align_grad_##name, RoiArguments, roiAlignGrad<T>)
OPC_EACH_FLOAT(OPC_ROIS)

} // namespace opc::cuda
