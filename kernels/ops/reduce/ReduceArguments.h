// What the device code of reductions is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

struct ReduceArguments {
  const void *in;
  void *out;
  int64_t outputs, count; // elements of the result; elements that each is made of
  double divisor;         // of means: the elements of the whole tensor's reduction
  int32_t keptRank, reducedRank;
  int64_t keptDims[20], keptStrides[20], reducedDims[20], reducedStrides[20]; // outermost first
};

} // namespace opc::ops
