// What affine_grid and its gradient share: the shape of the grid, and the coordinates of its pixels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"
#include "support/PieceRange.h"
#include "support/SbpRules.h"

namespace opc::ops {

/// Shapes that attribute size (batch, channels, [depth,] height, width) asks for.
struct GridShapes {
  Shape theta, grid;
};
/// The definition of an op from one of them to the other.
std::function<void(OpRegistry &)> affineGrid(const char *in, Shape GridShapes::*inShape, const char *out,
                                             Shape GridShapes::*outShape);

/// The coordinates of the pixels of a device's piece of the grid, from -1 to 1 along each axis of the whole, x first:
/// the innermost axis.
template <class T> class PixelCoordinates {
public:
  PixelCoordinates(const KernelContext *ctx, const char *grid) {
    const bool align = ctx->Attr<bool>("align_corners");
    for (int64_t a = ctx->Desc(grid).shape().NumAxes() - 2; a >= 1; --a) {
      std::vector<T> axis;
      const PieceRange range = pieceRange(ctx, grid, a);
      const double n = static_cast<double>(range.whole);
      for (int64_t i = range.begin; i < range.end(); ++i) {
        double v = n > 1 ? -1 + 2 * static_cast<double>(i) / (n - 1) : 0;
        if (!align) v *= (n - 1) / n;
        axis.push_back(static_cast<T>(v));
      }
      axes_.push_back(std::move(axis));
    }
  }
  template <class To> void of(int64_t pixel, To *coordinates) const {
    for (size_t k = 0; k < axes_.size(); ++k) {
      const int64_t n = static_cast<int64_t>(axes_[k].size());
      coordinates[k] = static_cast<To>(axes_[k][static_cast<size_t>(pixel % n)]);
      pixel /= n;
    }
  }

private:
  std::vector<std::vector<T>> axes_;
};

} // namespace opc::ops
