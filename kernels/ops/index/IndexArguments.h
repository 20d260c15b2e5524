// What device code that goes by indices is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"

#include <cstdint>

namespace opc::ops {

/// Rows of a tensor that indices name: `width` numbers of i32 or i64 for each of n rows, in `outer` repetitions.
struct RowIndices {
  const void *data;
  cuda::IndexFault *fault;
  int64_t outer, n, inner; // a row has `inner` elements
  int64_t step;            // rows of indices a repetition: 0 where all have the same
  int64_t rows;            // rows of a repetition in the indexed tensor
  int32_t width, isWide;   // isWide: i64
  /// For each number: what part of the axis is here, the whole axis, and the rows between neighbours.
  int64_t begin[20], size[20], whole[20], strides[20];
};

struct ScatterArguments {
  RowIndices at;
  const void *base, *values; // base: null for zeros
  void *out;
  int64_t padded;         // embedding_grad: the row that stays 0; -1 for none
  int32_t isMean, unused; // embedding_grad: each sum is divided by the number of its terms
};

/// Lines along one axis: each element of `index` names one of the indexed tensor in the same line.
struct LineIndices {
  const void *data;
  cuda::IndexFault *fault;
  int64_t n, length;                         // elements of index; those of a line
  int64_t begin, size, whole;                // of the indexed axis
  int64_t indexStep, indexedStep, otherStep; // along the lines
  int32_t rank, dim, isWide, unused;
  int64_t dims[20]; // of index
  int64_t indexedDims[20];
  int64_t indexStrides[20], indexedStrides[20], otherStrides[20];
};

struct LineArguments {
  LineIndices at;
  const void *in[3];
  void *out;
  int64_t count; // elements of the result
};

} // namespace opc::ops
