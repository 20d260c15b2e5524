// What the device code of grid_sample and affine_grid is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

struct GridSampleArguments {
  const void *input, *grid, *doutput, *ddinput, *ddgrid; // null for what is not given
  void *output, *dinput, *dgrid;
  int64_t batch, channels, height, width, pixels; // pixels: of the output
  int32_t mode, padding, align, unused;           // Interpolation, Padding
};

struct AffineGridArguments {
  const void *in;
  void *out;
  int64_t batch, pixels;
  int32_t rank, align;                 // rank: 2 or 3
  int64_t begin[3], size[3], whole[3]; // of the axes, the innermost first
};

} // namespace opc::ops
