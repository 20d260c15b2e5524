// Where the diagonals of matrices lie: for diag, diagonal and their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/Moves.h"

namespace opc::ops {

/// Entries of diagonal `k` (0 the main one, positive above) of a rows x cols matrix.
inline int64_t diagonalLength(int64_t rows, int64_t cols, int64_t k) {
  return std::max<int64_t>(0, k >= 0 ? std::min(rows, cols - k) : std::min(rows + k, cols));
}
/// The shape of diagonal `k` of the matrices that the first two axes form: it becomes the last axis.
inline Shape diagonalShape(const Shape &in, int64_t k) {
  DimVector dims(in.begin() + 2, in.end());
  dims.push_back(diagonalLength(in.At(0), in.At(1), k));
  return Shape(dims);
}
/// Where it lies.
inline Place diagonalPlace(const Shape &in, int64_t k) {
  const int64_t rest = in.Count(2), cols = in.At(1);
  Place place = wholePlace(Shape(DimVector(in.begin() + 2, in.end())));
  place.offset = (k >= 0 ? k : -k * cols) * rest;
  place.strides.push_back((cols + 1) * rest);
  return place;
}

} // namespace opc::ops
