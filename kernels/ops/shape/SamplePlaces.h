// The pixels that a resampled one is made of, and their weights, on the host and in device code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ScalarFloat.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace opc::ops {

enum class Interpolation { kBilinear, kNearest, kBicubic };
enum class Padding { kZeros, kBorder, kReflection };

/// Grid coordinates of one axis to pixels.
template <class T> struct Placement {
  int64_t size;
  bool align;
  Padding padding;

  OPC_HOST_DEVICE T unnormalized(T c) const {
    const T n = static_cast<T>(size);
    return align ? (c + 1) / 2 * (n - 1) : ((c + 1) * n - 1) / 2;
  }
  OPC_HOST_DEVICE T padded(T p) const {
    if (padding == Padding::kZeros) return p;
    if (padding == Padding::kReflection) p = reflected(p);
    return std::min(static_cast<T>(size - 1), std::max(p, T(0))); // NaN becomes 0
  }
  OPC_HOST_DEVICE T place(T c) const { return padded(unnormalized(c)); }
  /// d unnormalized / d c, and d padded / d p (0 where the edge holds p fast, as in PyTorch).
  OPC_HOST_DEVICE T scale() const { return (align ? static_cast<T>(size - 1) : static_cast<T>(size)) / 2; }
  OPC_HOST_DEVICE T paddedSlope(T p) const {
    if (padding == Padding::kZeros) return 1;
    T slope = 1;
    if (padding == Padding::kReflection) {
      const T low = align ? T(0) : T(-0.5), span = align ? static_cast<T>(size - 1) : static_cast<T>(size);
      if (span <= 0) return 0;
      if (p < low) slope = -1;
      if (std::fmod(std::floor(std::abs(p - low) / span), T(2)) != 0) slope = -slope;
      p = reflected(p);
    }
    return p <= 0 || p >= static_cast<T>(size - 1) ? T(0) : slope;
  }

private:
  OPC_HOST_DEVICE T reflected(T p) const {
    const T low = align ? T(0) : T(-0.5), span = align ? static_cast<T>(size - 1) : static_cast<T>(size);
    if (span <= 0) return 0;
    p = std::abs(p - low);
    const T extra = std::fmod(p, span), flips = std::floor(p / span);
    return std::fmod(flips, T(2)) == 0 ? extra + low : span - extra + low;
  }
};

/// A pixel position that casts to an integer, whatever the coordinate was.
template <class T> OPC_HOST_DEVICE int64_t toPixel(T p) {
  return p > T(-1e15) && p < T(1e15) ? static_cast<int64_t>(p) : int64_t{-1} << 40;
}

/// Keys' cubic convolution with a = -0.75, as PyTorch has it: the weights of the pixels -1, 0, 1 and 2 at t in [0, 1).
template <class T> OPC_HOST_DEVICE void cubicWeights(T t, T w[4]) {
  constexpr T a = T(-0.75);
  auto near = [](T d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  auto far = [](T d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

/// The weights' derivatives by t.
template <class T> OPC_HOST_DEVICE void cubicSlopes(T t, T w[4]) {
  constexpr T a = T(-0.75);
  auto near = [](T d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
  auto far = [](T d) { return (3 * a * d - 10 * a) * d + 8 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = -near(1 - t);
  w[3] = -far(2 - t);
}

/// The second derivatives.
template <class T> OPC_HOST_DEVICE void cubicCurves(T t, T w[4]) {
  constexpr T a = T(-0.75);
  auto near = [](T d) { return 6 * (a + 2) * d - 2 * (a + 3); };
  auto far = [](T d) { return 6 * a * d - 10 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

/// The pixels of a plane that one output of grid_sample reads (-1: outside), their weights, and from kOrder 1 on the
/// weights' derivatives by the grid's coordinates, from 2 on the second ones.
template <class T, int kOrder> struct Taps {
  int count;
  int64_t at[16];
  T weight[16], byX[kOrder > 0 ? 16 : 1], byY[kOrder > 0 ? 16 : 1];
  T byXX[kOrder > 1 ? 16 : 1], byXY[kOrder > 1 ? 16 : 1], byYY[kOrder > 1 ? 16 : 1];

  OPC_HOST_DEVICE Taps(Interpolation mode, const Placement<T> &px, const Placement<T> &py, T gx, T gy) {
#if defined(__CUDA_ARCH__)
    // Loops over taps may be unrolled to reads of all.
    for (int k = 0; k < 16; ++k) {
      at[k] = -1;
      weight[k] = 0;
      if constexpr (kOrder > 0) byX[k] = byY[k] = 0;
      if constexpr (kOrder > 1) byXX[k] = byXY[k] = byYY[k] = 0;
    }
#endif
    const auto pixel = [&](int64_t x, int64_t y) {
      return x >= 0 && x < px.size && y >= 0 && y < py.size ? y * px.size + x : int64_t{-1};
    };
    const T ux = px.unnormalized(gx), uy = py.unnormalized(gy);
    if (mode == Interpolation::kNearest) {
      count = 1;
      at[0] = pixel(toPixel(std::nearbyint(px.padded(ux))), toPixel(std::nearbyint(py.padded(uy))));
      weight[0] = 1;
      if constexpr (kOrder > 0) byX[0] = byY[0] = 0;
      if constexpr (kOrder > 1) byXX[0] = byXY[0] = byYY[0] = 0;
    } else if (mode == Interpolation::kBilinear) {
      count = 4;
      const T x = px.padded(ux), y = py.padded(uy), x0 = std::floor(x), y0 = std::floor(y);
      const T wx[2] = {1 - (x - x0), x - x0}, wy[2] = {1 - (y - y0), y - y0};
      const int64_t ix = toPixel(x0), iy = toPixel(y0);
      for (int k = 0; k < 4; ++k) {
        at[k] = pixel(ix + k % 2, iy + k / 2);
        weight[k] = wx[k % 2] * wy[k / 2];
      }
      if constexpr (kOrder > 0) {
        const T slopeX = px.scale() * px.paddedSlope(ux), slopeY = py.scale() * py.paddedSlope(uy);
        for (int k = 0; k < 4; ++k) {
          const T sx = k % 2 ? slopeX : -slopeX, sy = k / 2 ? slopeY : -slopeY;
          byX[k] = sx * wy[k / 2];
          byY[k] = sy * wx[k % 2];
          if constexpr (kOrder > 1) {
            byXX[k] = byYY[k] = 0;
            byXY[k] = sx * sy;
          }
        }
      }
    } else { // bicubic: each neighbour is padded by itself
      count = 16;
      const T x0 = std::floor(ux), y0 = std::floor(uy);
      T wx[4], wy[4];
      cubicWeights(ux - x0, wx);
      cubicWeights(uy - y0, wy);
      for (int k = 0; k < 16; ++k) {
        at[k] = pixel(toPixel(px.padded(x0 + static_cast<T>(k % 4 - 1))),
                      toPixel(py.padded(y0 + static_cast<T>(k / 4 - 1))));
        weight[k] = wx[k % 4] * wy[k / 4];
      }
      if constexpr (kOrder > 0) {
        T sx[4], sy[4], cx[4], cy[4];
        cubicSlopes(ux - x0, sx);
        cubicSlopes(uy - y0, sy);
        cubicCurves(ux - x0, cx);
        cubicCurves(uy - y0, cy);
        for (int k = 0; k < 16; ++k) {
          byX[k] = px.scale() * sx[k % 4] * wy[k / 4];
          byY[k] = py.scale() * wx[k % 4] * sy[k / 4];
          if constexpr (kOrder > 1) {
            byXX[k] = px.scale() * px.scale() * cx[k % 4] * wy[k / 4];
            byXY[k] = px.scale() * py.scale() * sx[k % 4] * sy[k / 4];
            byYY[k] = py.scale() * py.scale() * wx[k % 4] * cy[k / 4];
          }
        }
      }
    }
  }
};

} // namespace opc::ops
