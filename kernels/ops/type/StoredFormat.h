// The types that are only stored, as device code is told of them: one kernel for all. Read by the host's compiler and
// by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Floats.h"

namespace opc::ops {

struct StoredFormat {
  ByteFormat format;      // of floats
  int32_t bits, isSigned; // of integers; 0 bits: a float
  int32_t saturates = 1;  // floats; integers always do
};

} // namespace opc::ops
