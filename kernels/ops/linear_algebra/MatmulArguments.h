// What the device code of matrix products is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

struct MatmulArguments {
  const void *a, *b, *add; // add: null for none
  void *out;
  int64_t m, n, k, batches;
  double alpha;
  int32_t transA, transB;
  int32_t rank; // of the batch
  // Lines of memory begin where accesses of 16 bytes may, and hold whole ones: of a, of b, of out and add.
  int32_t wideA, wideB, wideOut;
  int64_t dims[20], stepA[20], stepB[20];
};

} // namespace opc::ops
