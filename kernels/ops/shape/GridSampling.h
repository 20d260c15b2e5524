// Where grid_sample reads: grid coordinates to pixels, with padding; shared with its gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <algorithm>
#include <cmath>

namespace opc::ops {

enum class Interpolation { kBilinear, kNearest, kBicubic };
enum class Padding { kZeros, kBorder, kReflection };

inline Maybe<Interpolation> interpolationOf(const user_op::OpContext *ctx) {
  const std::string &m = ctx->Attr<std::string>("interpolation_mode");
  if (m == "bilinear") return Interpolation::kBilinear;
  if (m == "nearest") return Interpolation::kNearest;
  if (m == "bicubic") return Interpolation::kBicubic;
  return (Error("OPC0205") << "interpolation_mode is \"" << m << "\"")
      .help("use \"bilinear\", \"nearest\" or \"bicubic\"");
}
inline Maybe<Padding> paddingOf(const user_op::OpContext *ctx) {
  const std::string &m = ctx->Attr<std::string>("padding_mode");
  if (m == "zeros") return Padding::kZeros;
  if (m == "border") return Padding::kBorder;
  if (m == "reflection") return Padding::kReflection;
  return (Error("OPC0205") << "padding_mode is \"" << m << "\"").help("use \"zeros\", \"border\" or \"reflection\"");
}

/// Grid coordinates of one axis to pixels.
template <class T> struct Placement {
  int64_t size;
  bool align;
  Padding padding;

  T unnormalized(T c) const {
    const T n = static_cast<T>(size);
    return align ? (c + 1) / 2 * (n - 1) : ((c + 1) * n - 1) / 2;
  }
  T padded(T p) const {
    if (padding == Padding::kZeros) return p;
    if (padding == Padding::kReflection) p = reflected(p);
    return std::min(static_cast<T>(size - 1), std::max(p, T(0))); // NaN becomes 0
  }
  T place(T c) const { return padded(unnormalized(c)); }
  /// d unnormalized / d c, and d padded / d p (0 where the edge holds p fast, as in PyTorch).
  T scale() const { return (align ? static_cast<T>(size - 1) : static_cast<T>(size)) / 2; }
  T paddedSlope(T p) const {
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
  T reflected(T p) const {
    const T low = align ? T(0) : T(-0.5), span = align ? static_cast<T>(size - 1) : static_cast<T>(size);
    if (span <= 0) return 0;
    p = std::abs(p - low);
    const T extra = std::fmod(p, span), flips = std::floor(p / span);
    return std::fmod(flips, T(2)) == 0 ? extra + low : span - extra + low;
  }
};

/// A pixel position that casts to an integer, whatever the coordinate was.
template <class T> int64_t toPixel(T p) {
  return p > T(-1e15) && p < T(1e15) ? static_cast<int64_t>(p) : int64_t{-1} << 40;
}

template <class T> void cubicWeights(T t, T w[4]) {
  constexpr T a = T(-0.75);
  auto near = [](T d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  auto far = [](T d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

/// The weights' derivatives by t.
template <class T> void cubicSlopes(T t, T w[4]) {
  constexpr T a = T(-0.75);
  auto near = [](T d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
  auto far = [](T d) { return (3 * a * d - 10 * a) * d + 8 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = -near(1 - t);
  w[3] = -far(2 - t);
}

} // namespace opc::ops
