// Where each element of a reflecting or replicating pad comes from: for the pads and for their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <vector>

namespace opc::ops {

/// A pad of the last one or two axes, seen as planes of rows. Element (r, c) of an output plane is element
/// (rows[r], columns[c]) of the input's; the input's own columns begin at output column `left`.
struct EdgePads {
  std::vector<int64_t> rows, columns;
  int64_t planes = 0, inColumns = 0, inPlane = 0, left = 0;
};
/// By the op's name (reflection_* or replication_*, *1d or *2d, also with _grad) and its attribute padding. Throws when
/// the padding does not fit `in`, the shape of the tensor that is padded.
EdgePads edgePadsOf(const user_op::OpContext *ctx, const Shape &in);
Maybe<Shape> edgePaddedShape(const user_op::OpContext *ctx, const Shape &in);
/// Signatures that split the axes without padding.
Maybe<void> edgePadSbp(user_op::SbpContext *ctx, const Shape &in);

} // namespace opc::ops
