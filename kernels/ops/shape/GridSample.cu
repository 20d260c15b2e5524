// grid_sample, affine_grid and their gradients, by the CPU's formulas. What adds up in an image is added by one thread
// for each of its planes, in the order of the points.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "shape/GridArguments.h"
#include "shape/SamplePlaces.h"

namespace opc::cuda {
namespace {

using ops::AffineGridArguments;
using ops::GridSampleArguments;
using ops::Interpolation;
using ops::Padding;
using ops::Placement;
using ops::Taps;

/// How points are placed.
template <class T> struct Points {
  using C = Compute<T>;
  Interpolation mode;
  Placement<C> px, py;
  const T *grid;
  __device__ explicit Points(const GridSampleArguments &a)
      : mode(static_cast<Interpolation>(a.mode)), px{a.width, a.align != 0, static_cast<Padding>(a.padding)},
        py{a.height, a.align != 0, px.padding}, grid(static_cast<const T *>(a.grid)) {}
  __device__ C x(int64_t point) const { return load(grid[2 * point]); }
  __device__ C y(int64_t point) const { return load(grid[2 * point + 1]); }
};
template <class T> __device__ Compute<T> at(const void *data, int64_t i) {
  return load(static_cast<const T *>(data)[i]);
}
template <class T> __device__ void put(void *data, int64_t i, Compute<T> v) {
  static_cast<T *>(data)[i] = stored<T>(v);
}

template <class T> __device__ void gridSample(const GridSampleArguments &a) {
  using C = Compute<T>;
  const Points<T> points(a);
  const int64_t plane = a.height * a.width;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.batch * a.pixels; i += itemStep()) {
    const Taps<C, 0> taps(points.mode, points.px, points.py, points.x(i), points.y(i));
    for (int64_t c = 0; c < a.channels; ++c) {
      const int64_t channel = i / a.pixels * a.channels + c;
      C sum = 0;
#pragma unroll 1
      for (int k = 0; k < taps.count; ++k)
        if (taps.at[k] >= 0) sum += taps.weight[k] * at<T>(a.input, channel * plane + taps.at[k]);
      put<T>(a.output, channel * a.pixels + i % a.pixels, sum);
    }
  }
}

/// By the image: a thread a plane. With the second order, what the slopes of the weights add.
template <class T, bool kIsSecond> __device__ void imageGrad(const GridSampleArguments &a) {
  using C = Compute<T>;
  const Points<T> points(a);
  const int64_t plane = a.height * a.width;
  // Halves add up in f32: in the scratch that `output` is then.
  C *sums = static_cast<C *>(sizeof(T) == 2 ? a.output : a.dinput);
#pragma unroll 1
  for (int64_t p = firstItem(); p < a.batch * a.channels; p += itemStep()) {
    const int64_t n = p / a.channels;
    C *image = sums + p * plane;
#pragma unroll 1
    for (int64_t k = 0; k < plane; ++k) image[k] = 0;
    for (int64_t i = 0; i < a.pixels; ++i) {
      const int64_t point = n * a.pixels + i;
      const C d = at<T>(a.doutput, p * a.pixels + i);
      const Taps<C, kIsSecond ? 1 : 0> taps(points.mode, points.px, points.py, points.x(point), points.y(point));
#pragma unroll 1
      for (int k = 0; k < taps.count; ++k) {
        if (taps.at[k] < 0) continue;
        if constexpr (kIsSecond)
          image[taps.at[k]] +=
              d * (at<T>(a.ddgrid, 2 * point) * taps.byX[k] + at<T>(a.ddgrid, 2 * point + 1) * taps.byY[k]);
        else
          image[taps.at[k]] += taps.weight[k] * d;
      }
    }
    if constexpr (sizeof(T) == 2)
#pragma unroll 1
      for (int64_t k = 0; k < plane; ++k) put<T>(a.dinput, p * plane + k, image[k]);
  }
}

/// By the grid: a thread a point.
template <class T> __device__ void pointGrad(const GridSampleArguments &a) {
  using C = Compute<T>;
  const Points<T> points(a);
  const int64_t plane = a.height * a.width;
#pragma unroll 1
  for (int64_t point = firstItem(); point < a.batch * a.pixels; point += itemStep()) {
    const Taps<C, 1> taps(points.mode, points.px, points.py, points.x(point), points.y(point));
    C dx = 0, dy = 0;
    for (int64_t c = 0; c < a.channels; ++c) {
      const int64_t channel = point / a.pixels * a.channels + c;
      const C d = at<T>(a.doutput, channel * a.pixels + point % a.pixels);
#pragma unroll 1
      for (int k = 0; k < taps.count; ++k) {
        if (taps.at[k] < 0) continue;
        const C pixel = at<T>(a.input, channel * plane + taps.at[k]);
        dx += taps.byX[k] * pixel * d;
        dy += taps.byY[k] * pixel * d;
      }
    }
    put<T>(a.dgrid, 2 * point, dx);
    put<T>(a.dgrid, 2 * point + 1, dy);
  }
}
/// By the gradient of the output and by the grid, of the second order.
template <class T> __device__ void pointSecond(const GridSampleArguments &a) {
  using C = Compute<T>;
  const Points<T> points(a);
  const int64_t plane = a.height * a.width;
#pragma unroll 1
  for (int64_t point = firstItem(); point < a.batch * a.pixels; point += itemStep()) {
    const Taps<C, 2> taps(points.mode, points.px, points.py, points.x(point), points.y(point));
    const C bx = at<T>(a.ddgrid, 2 * point), by = at<T>(a.ddgrid, 2 * point + 1);
    C dx = 0, dy = 0;
    for (int64_t c = 0; c < a.channels; ++c) {
      const int64_t channel = point / a.pixels * a.channels + c, to = channel * a.pixels + point % a.pixels;
      const C d = at<T>(a.doutput, to);
      C sum = 0;
#pragma unroll 1
      for (int k = 0; k < taps.count; ++k) {
        if (taps.at[k] < 0) continue;
        const C pixel = at<T>(a.input, channel * plane + taps.at[k]),
                other = at<T>(a.ddinput, channel * plane + taps.at[k]);
        sum += taps.weight[k] * other + (bx * taps.byX[k] + by * taps.byY[k]) * pixel;
        dx += d * (taps.byX[k] * other + (bx * taps.byXX[k] + by * taps.byXY[k]) * pixel);
        dy += d * (taps.byY[k] * other + (bx * taps.byXY[k] + by * taps.byYY[k]) * pixel);
      }
      put<T>(a.output, to, sum);
    }
    put<T>(a.dgrid, 2 * point, dx);
    put<T>(a.dgrid, 2 * point + 1, dy);
  }
}

/// The coordinate of a pixel along axis k, the innermost first; 1 behind the last.
template <class C> __device__ C coordinate(const AffineGridArguments &a, int64_t pixel, int k) {
  if (k == a.rank) return 1;
  for (int j = 0; j < k; ++j) pixel /= a.size[j];
  const double n = static_cast<double>(a.whole[k]), i = static_cast<double>(a.begin[k] + pixel % a.size[k]);
  double v = n > 1 ? -1 + 2 * i / (n - 1) : 0;
  if (!a.align) v *= (n - 1) / n;
  return static_cast<C>(v);
}
template <class T> __device__ void affineGrid(const AffineGridArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.batch * a.pixels; i += itemStep())
#pragma unroll 1
    for (int r = 0; r < a.rank; ++r) {
      const int64_t row = (i / a.pixels * a.rank + r) * (a.rank + 1);
      C v = at<T>(a.in, row + a.rank);
#pragma unroll 1
      for (int k = 0; k < a.rank; ++k) v += at<T>(a.in, row + k) * coordinate<C>(a, i % a.pixels, k);
      put<T>(a.out, i * a.rank + r, v);
    }
}
/// A warp for each number of theta; sums run in f64.
template <class T> __device__ void affineGridGrad(const AffineGridArguments &a) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t numbers = a.batch * a.rank * (a.rank + 1);
#pragma unroll 1
  for (int64_t w = firstItem() / 32; w < numbers; w += itemStep() / 32) {
    const int64_t r = w / (a.rank + 1) % a.rank, n = w / (a.rank + 1) / a.rank;
    const int k = static_cast<int>(w % (a.rank + 1));
    double sum = 0;
    for (int64_t i = lane; i < a.pixels; i += 32)
      sum += static_cast<double>(at<T>(a.in, (n * a.pixels + i) * a.rank + r)) *
             static_cast<double>(coordinate<C>(a, i, k));
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (lane == 0) put<T>(a.out, w, static_cast<C>(sum));
  }
}

} // namespace

#define OPC_GRIDS(name, T)                                                                                             \
  OPC_KERNEL(grid_sample_##name, GridSampleArguments, gridSample<T>)                                                   \
  OPC_KERNEL(grid_sample_image_grad_##name, GridSampleArguments, imageGrad<T, false>)                                  \
  OPC_KERNEL(grid_sample_image_second_##name, GridSampleArguments, imageGrad<T, true>)                                 \
  OPC_KERNEL(grid_sample_point_grad_##name, GridSampleArguments, pointGrad<T>)                                         \
  OPC_KERNEL(grid_sample_point_second_##name, GridSampleArguments, pointSecond<T>)                                     \
  OPC_KERNEL(affine_grid_##name, AffineGridArguments, affineGrid<T>)                                                   \
  OPC_KERNEL(affine_grid_grad_##name, AffineGridArguments, affineGridGrad<T>)
OPC_EACH_FLOAT(OPC_GRIDS)

} // namespace opc::cuda
