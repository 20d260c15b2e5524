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
  int32_t rank, unused; // of the batch
  int64_t dims[20], stepA[20], stepB[20];
};

} // namespace opc::ops
