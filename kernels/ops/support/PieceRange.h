// The part of an axis that this device has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

namespace opc::ops {

/// The entries of an axis that this device has, of those of the whole. On several devices an axis may be split that
/// indices or places refer to: each device then deals with those that fall into its piece.
struct PieceRange {
  int64_t begin = 0, size = 0, whole = 0;
  bool all() const { return size == whole; }
  int64_t end() const { return begin + size; }
  /// The place of an index in the piece; out of [0, size) when another device has it.
  template <class I> int64_t place(I index) const { return static_cast<int64_t>(index) - begin; }
  bool holds(int64_t place) const { return static_cast<uint64_t>(place) < static_cast<uint64_t>(size); }
};
inline PieceRange pieceRange(const user_op::KernelContext *ctx, const std::string &arg, int64_t axis) {
  return {ctx->ShardBegin(arg, 0, axis), ctx->Desc(arg).shape().At(axis),
          ctx->LogicalTensorDesc4ArgNameAndIndex(arg, 0)->shape().At(axis)};
}
/// The shape of the whole tensor of an argument.
inline const Shape &wholeShape(const user_op::KernelContext *ctx, const std::string &arg) {
  return ctx->LogicalTensorDesc4ArgNameAndIndex(arg, 0)->shape();
}

} // namespace opc::ops
