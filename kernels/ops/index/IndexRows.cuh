// Rows and elements that indices name, in device code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "IndexFault.cuh"
#include "index/IndexArguments.h"

namespace opc::cuda {

using ops::LineArguments;
using ops::LineIndices;
using ops::RowIndices;
using ops::ScatterArguments;

/// The row, among those of all repetitions, that row i of the indices names in repetition o; -1 where it is wrong,
/// which is reported when `reports`, or on another device.
__device__ inline int64_t rowOf(const RowIndices &r, int64_t o, int64_t i, bool reports) {
  int64_t row = o * r.rows;
  bool isHere = true;
  for (int k = 0; k < r.width; ++k) {
    const int64_t at = (o * r.step + i) * r.width + k, index = indexAt(r.data, r.isWide, at);
    if (index < 0 || index >= r.whole[k]) {
      if (reports) reportIndex(r.fault, at, index);
      return -1;
    }
    const int64_t place = index - r.begin[k];
    isHere = isHere && place >= 0 && place < r.size[k];
    row += place * r.strides[k];
  }
  return isHere ? row : -1;
}

/// The place of an element of index in its line of the indexed tensor; -1 as above.
__device__ inline int64_t placeOf(const LineIndices &a, int64_t at, bool reports) {
  const int64_t index = indexAt(a.data, a.isWide, at);
  if (index < 0 || index >= a.whole) {
    if (reports) reportIndex(a.fault, at, index);
    return -1;
  }
  const int64_t place = index - a.begin;
  return place >= 0 && place < a.size ? place : -1;
}

/// The line of an element of index, and its place there.
struct LinePlace {
  int64_t k, index, indexed, other; // offsets of the line's first elements
};
__device__ inline LinePlace lineOf(const LineIndices &a, int64_t i) {
  LinePlace p{0, 0, 0, 0};
#pragma unroll 1
  for (int d = a.rank; d-- > 0;) {
    const int64_t at = i % a.dims[d];
    i /= a.dims[d];
    if (d == a.dim) {
      p.k = at;
      continue;
    }
    p.index += at * a.indexStrides[d];
    p.indexed += at * a.indexedStrides[d];
    p.other += at * a.otherStrides[d];
  }
  return p;
}

} // namespace opc::cuda
