// What the device code of convolutions is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// A convolution of x with a weight to y. Which of the three is the result depends on the kernel; the two others are
/// its sources. Strides are of batch, channel and the three spatial dimensions, in elements.
struct ConvArguments {
  const void *x, *weight, *y, *bias, *add; // bias, add: null for none
  void *out;
  void *slices; // sums of parts of the positions, one after another; null when there is one part
  int64_t batch, groups, own, perGroup; // channels and filters of a group
  int64_t in[3], size[3], kernel[3];    // of x, y and the window
  int64_t stride[3], dilation[3], padding[3];
  int64_t xs[5], ys[5], ws[5];
  int64_t sliceCount, sliceLength; // of batch * positions
};

/// fused_conv2d: normalization by given statistics between bias and add, which are null without it, and an activation.
struct FusedConvArguments {
  ConvArguments conv;
  const float *gamma, *beta, *mean, *variance;
  double epsilon;
  float low, high;
  int32_t activation, unused; // 0 none, 1 relu, 2 to [low, high]
};

} // namespace opc::ops
