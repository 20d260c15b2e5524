// Images resampled on a regular grid: a thread for each pixel that is made. Backward, a pixel of dx gathers from the
// outputs that read it.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "shape/UpsampleArguments.h"

namespace opc::cuda {
namespace {

using ops::UpsampleArguments;
using ops::UpsampleAxis;

enum Mode { kNearest, kLinear, kCubic };
template <int kMode> constexpr int kTaps = kMode == kNearest ? 1 : kMode == kLinear ? 2 : 4;

__device__ inline int64_t within(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/// Keys' cubic convolution with a = -0.75.
__device__ inline double nearWeight(double d) { return ((-0.75 + 2) * d - (-0.75 + 3)) * d * d + 1; }
__device__ inline double farWeight(double d) { return ((-0.75 * d - 5 * -0.75) * d + 8 * -0.75) * d - 4 * -0.75; }

/// The input positions that an output reads along one axis, and their weights.
template <class C, int kMode> struct Taps {
  int64_t at[kTaps<kMode>];
  C weight[kTaps<kMode>];
  __device__ Taps(const UpsampleAxis &a, bool align, int64_t output) {
    const double o = static_cast<double>(output);
    if (kMode == kNearest) {
      at[0] = ops::nearestPixel(a, output);
      weight[0] = 1;
      return;
    }
    double center = align ? o * a.step : (o + 0.5) * a.step - 0.5;
    if (kMode == kLinear && center < 0) center = 0;
    const double base = floor(center), t = center - base;
    const double linear[4] = {1 - t, t, 0, 0},
                 cubic[4] = {farWeight(t + 1), nearWeight(t), nearWeight(1 - t), farWeight(2 - t)};
#pragma unroll
    for (int k = 0; k < kTaps<kMode>; ++k) {
      at[k] = within(static_cast<int64_t>(base) + k - (kMode == kCubic), a.in);
      weight[k] = static_cast<C>(kMode == kCubic ? cubic[k] : linear[k]);
    }
  }
};

template <class T, int kMode> __device__ void upsample(const UpsampleArguments &a) {
  using C = Compute<T>;
  const int64_t all = a.planes * a.rows.out * a.columns.out;
#pragma unroll 1
  for (int64_t i = firstItem(); i < all; i += itemStep()) {
    const int64_t plane = i / a.columns.out / a.rows.out;
    const Taps<C, kMode> y(a.rows, a.align, i / a.columns.out % a.rows.out), x(a.columns, a.align, i % a.columns.out);
    const T *from = static_cast<const T *>(a.from) + plane * a.rows.in * a.columns.in;
    C sum = 0;
#pragma unroll
    for (int r = 0; r < kTaps<kMode>; ++r) {
      C line = 0;
#pragma unroll
      for (int c = 0; c < kTaps<kMode>; ++c) line += x.weight[c] * load(from[y.at[r] * a.columns.in + x.at[c]]);
      sum += y.weight[r] * line;
    }
    static_cast<T *>(a.to)[i] = stored<T>(sum);
  }
}

/// Outputs that may read input i: the ends of the image repeat beyond it.
__device__ inline int64_t firstReader(const UpsampleAxis &a, int64_t i) {
  if (i == 0 || a.step <= 0) return 0;
  return within(static_cast<int64_t>(floor((static_cast<double>(i) - 3) / a.step)) - 1, a.out);
}
__device__ inline int64_t lastReader(const UpsampleAxis &a, int64_t i) {
  if (i == a.in - 1 || a.step <= 0) return a.out - 1;
  return within(static_cast<int64_t>(ceil((static_cast<double>(i) + 3) / a.step)) + 1, a.out);
}
/// How much of input i is in an output.
template <class C, int kMode> __device__ C shareOf(const UpsampleAxis &a, bool align, int64_t output, int64_t i) {
  const Taps<C, kMode> taps(a, align, output);
  C share = 0;
#pragma unroll
  for (int k = 0; k < kTaps<kMode>; ++k) share += taps.at[k] == i ? taps.weight[k] : C(0);
  return share;
}

template <class T, int kMode> __device__ void upsampleGrad(const UpsampleArguments &a) {
  using C = Compute<T>;
  const int64_t all = a.planes * a.rows.in * a.columns.in;
#pragma unroll 1
  for (int64_t i = firstItem(); i < all; i += itemStep()) {
    const int64_t plane = i / a.columns.in / a.rows.in, y = i / a.columns.in % a.rows.in, x = i % a.columns.in;
    const T *from = static_cast<const T *>(a.from) + plane * a.rows.out * a.columns.out;
    const int64_t left = firstReader(a.columns, x), right = lastReader(a.columns, x);
    C sum = 0;
    for (int64_t r = firstReader(a.rows, y); r <= lastReader(a.rows, y); ++r) {
      const C share = shareOf<C, kMode>(a.rows, a.align, r, y);
      if (share == C(0)) continue;
      for (int64_t c = left; c <= right; ++c) {
        const C own = shareOf<C, kMode>(a.columns, a.align, c, x);
        if (own != C(0)) sum += share * own * load(from[r * a.columns.out + c]);
      }
    }
    static_cast<T *>(a.to)[i] = stored<T>(sum);
  }
}

} // namespace

#define OPC_UPSAMPLE_MODE(name, T, op, mode)                                                                           \
  OPC_KERNEL(op##_##name, UpsampleArguments, upsample<T, mode>)                                                        \
  OPC_KERNEL(op##_grad_##name, UpsampleArguments, upsampleGrad<T, mode>)
#define OPC_UPSAMPLE(name, T)                                                                                          \
  OPC_UPSAMPLE_MODE(name, T, upsample_nearest_2d, kNearest)                                                            \
  OPC_UPSAMPLE_MODE(name, T, upsample_bilinear_2d, kLinear)                                                            \
  OPC_UPSAMPLE_MODE(name, T, upsample_bicubic_2d, kCubic)
OPC_EACH_FLOAT(OPC_UPSAMPLE)

} // namespace opc::cuda
