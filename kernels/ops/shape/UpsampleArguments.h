// What the device code of upsamplings is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ScalarFloat.h"

#include <cmath>
#include <cstdint>

namespace opc::ops {

/// One axis: the distance of neighbouring outputs in input pixels, and the scale that was given, 0 for none.
struct UpsampleAxis {
  int64_t in, out;
  double step, scale;
};

/// The pixel that output `o` repeats: floor(o * in / out), or floor(o / scale). Not by the distance: that is rounded,
/// and 49 times 1 / 49 is below 1.
OPC_HOST_DEVICE inline int64_t nearestPixel(const UpsampleAxis &a, int64_t o) {
  const int64_t pixel =
      a.scale > 0 ? static_cast<int64_t>(std::floor(static_cast<double>(o) / a.scale)) : o * a.in / a.out;
  return pixel < a.in ? pixel : a.in - 1;
}

/// From `from` to `to`: x to y, or dy to dx.
struct UpsampleArguments {
  const void *from;
  void *to;
  int64_t planes;
  UpsampleAxis rows, columns;
  int32_t align, unused;
};

} // namespace opc::ops
