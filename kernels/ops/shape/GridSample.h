// What grid_sample and its gradient share: an instance's sizes and how it places its points.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/SampleWeights.h"

namespace opc::ops {

/// The attributes of both ops.
void gridSampleAttrs(OpRegistry &op);
/// The check of the three: input (batch, channels, height, width), grid (batch, height, width, 2) of its type; gives
/// the output's type.
Maybe<TensorDesc> gridSampleOutput(const InferContext *ctx);
/// A sample with them.
Case withGrid(Case c, const char *mode, const char *padding, bool align);

template <class T> struct GridSampling {
  int64_t batch, channels, plane, pixels; // plane: pixels of the image, pixels: of the output
  Interpolation mode;
  Placement<T> px, py;

  GridSampling(const OpContext &ctx, const Shape &in, const Shape &grid)
      : batch(in.At(0)), channels(in.At(1)), plane(in.Count(2)), pixels(grid.Count(1, 3)),
        mode(valueOf(interpolationOf(ctx))), px{in.At(3), ctx.Attr<bool>("align_corners"), valueOf(paddingOf(ctx))},
        py{in.At(2), px.align, px.padding} {}
  /// The taps of output pixel i of all, whose point is grid[2 i], grid[2 i + 1].
  template <int kOrder> Taps<T, kOrder> taps(const T *grid, int64_t i) const {
    return Taps<T, kOrder>(mode, px, py, grid[2 * i], grid[2 * i + 1]);
  }
};

} // namespace opc::ops
