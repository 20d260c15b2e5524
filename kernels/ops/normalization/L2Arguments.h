// What the device code of l2_normalize is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// x as [outer, n, inner]: outer * inner vectors of n elements.
struct L2Arguments {
  const void *x, *dy, *y; // x forward; dy and y backward
  void *out, *sums;       // of x's type; read by the gradient
  int64_t vectors, n, inner;
  double epsilon;
  int32_t width, unused; // vectors side by side in a block
};

} // namespace opc::ops
