// Kernels that put rows together, column by column: sums over the first axes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/RowsKernel.h"

namespace opc::user_op {

/// A loop over rows all of whose outputs are kWhole: element j of them depends on column j of all rows. Rows are put
/// together in pieces, whose results are combined in their order at the end; so several threads may share them, and the
/// bits are the same for any number of threads.
class ColumnsLoop : public RowsLoop {
public:
  /// Rows of a piece; the last one may have fewer. Follows from the op's shapes, and so do the pieces of the kernel.
  int64_t pieceRows = 0;
  int64_t pieces() const { return (rows + pieceRows - 1) / pieceRows; }

  /// Bytes of the state that a piece is made in; the first KeptBytes(), a multiple of 8, are kept of it as its part.
  virtual size_t StateBytes() const = 0;
  virtual size_t KeptBytes() const = 0;
  /// Adds rows to a piece, which begins with its first row: out[0] is its state, at an address that is a multiple of
  /// 64. The rows of a piece come in their order, those of one call are of one piece.
  void Run(const void *const *in, void *const *out, int64_t first, int64_t count, void *scratch) const override = 0;
  /// Makes columns [begin, end) of the outputs from the parts of all pieces, which are `stride` bytes apart. An output
  /// that nobody needs is null.
  virtual void Finish(const char *parts, size_t stride, void *const *out, int64_t begin, int64_t end) const = 0;
};

} // namespace opc::user_op
