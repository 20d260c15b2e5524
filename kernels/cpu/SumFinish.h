// What becomes of the 32-bit sums of products while they are in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"

#include <cstdint>

namespace opc::cpu {

/// A sum, held at 0 from below with relu: as it is (i32), times the scale of its column (f32), or that rounded to the
/// nearest integer, ties to even, plus the zero point, held to the type (u8, i8).
struct SumFinish {
  DataType type = kInt32;
  const float *scale = nullptr; // null for i32
  int64_t scales = 1;           // one, or one for each column
  const void *zero = nullptr;   // of u8 or i8; null for none
  int64_t zeros = 1;            // one, or one for each column
  bool relu = false;
  int64_t elementBytes() const { return type == kInt32 || type == kFloat ? 4 : 1; }
};

/// Rows of sums, `sumStep` apart, of which the first column is number `first`: each plus more[its number], which wraps
/// around, goes to element row * rowStep + column * columnStep of `out`. The same bits on every processor.
struct SumBlock {
  const int32_t *sums;
  int64_t rows, columns, sumStep, first;
  const int32_t *more; // for each column of all
  const float *zero;   // the same: what writeZeroPoints has written
  void *out;
  int64_t rowStep, columnStep;
};
/// The zero points of all columns.
void writeZeroPoints(const SumFinish &finish, int64_t columns, float *to);
void finishSums(const SumFinish &finish, const SumBlock &block);

} // namespace opc::cpu
