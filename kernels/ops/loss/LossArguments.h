// What the device code of losses is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"

#include <cstdint>

namespace opc::ops {

/// Element by element.
struct LossArguments {
  int64_t n, posCount;                       // posCount: elements of pos, which is repeated
  const void *input, *target, *weight, *pos; // weight, pos: null for none
  void *out;
  double beta;
  int32_t isLogTarget, unused;
};

/// Rows of classes with a label each.
struct ClassArguments {
  const void *in, *labels, *weight, *dy; // null for what is not given
  void *out, *outWeight;
  cuda::IndexFault *fault;
  int64_t rows, classes; // classes: those of this device
  int64_t begin, whole;  // of all classes
  int64_t ignored;
  int32_t hasIgnored, isWide; // isWide: labels are i64
};

} // namespace opc::ops
