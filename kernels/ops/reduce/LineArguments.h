// What the device code of scans and sorts is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// Lines of n elements that are `inner` apart.
struct ScanArguments {
  const void *in[3];
  void *out;
  int64_t lines, n, inner;
  int32_t isReverse, unused;
};

/// Rows of n elements, whose positions are put in order.
struct SortArguments {
  /// Positions that a block puts in order in shared memory.
  static constexpr int64_t kChunk = 1024;
  const void *in;
  const int32_t *from; // in order in runs of `run`
  int32_t *to;
  int64_t rows, n, run;
  int32_t width, isDescending; // width: a power of two, elements of a chunk
};

} // namespace opc::ops
