// What the device code of upsamplings is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// One axis: the distance of neighbouring outputs in input pixels.
struct UpsampleAxis {
  int64_t in, out;
  double step;
};

/// From `from` to `to`: x to y, or dy to dx.
struct UpsampleArguments {
  const void *from;
  void *to;
  int64_t planes;
  UpsampleAxis rows, columns;
  int32_t align, unused;
};

} // namespace opc::ops
