// What the device code of roi_align is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"
#include "pooling/RoiPlaces.h"

namespace opc::ops {

/// Regions of x to y, or of dy to dx.
struct RoiArguments {
  const void *x, *dy, *rois, *indices; // dy: null for y
  void *out;                           // y or dx
  float *sums;                         // of the gradients of halves
  cuda::IndexFault *fault;
  int64_t images, channels, regions;
  RoiAxis rows, columns;
  int32_t isMax, isWide; // isWide: the indices are i64
};

} // namespace opc::ops
