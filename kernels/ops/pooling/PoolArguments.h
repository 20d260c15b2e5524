// What the device code of poolings is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"

#include <cstdint>

namespace opc::ops {

/// A pooling of x to y, or its gradient: of dy to dx.
struct PoolArguments {
  const void *x, *dy;       // null where the kernel does not read them
  void *out;                // y or dx
  const int64_t *indices;   // of the maxima, for gradients; null to look for them
  cuda::IndexFault *fault;  // where wrong indices are reported
  int64_t *indicesOut;      // null when nobody asks
  int64_t planes, channels; // batch * channels
  int64_t in[3], size[3];   // of x and y
  int64_t kernel[3], stride[3], dilation[3], before[3], after[3];
  int64_t divisor; // of means; 0: elements of the window
  int32_t withPadding, adaptive, channelsLast, unused;
};

} // namespace opc::ops
