// Boxes that slice and narrow cut out of a tensor, and that slice_update and the gradients write into one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/Moves.h"
#include "support/SignatureLists.h"

namespace opc::ops {

/// The first index of each axis, its step, and how many indices it takes.
struct Box {
  DimVector first, step, count;
};
/// Attributes start, stop and step, and dim, start and length, for a tensor of shape `shape`.
Maybe<Box> sliceBox(const OpContext &ctx, const Shape &shape);
Maybe<Box> narrowBox(const OpContext &ctx, const Shape &shape);

/// Where the box lies in a tensor.
Place placeOf(const Box &box, const Shape &shape);
/// Axes of the whole tensor, one with `shape`, may be split where the box takes them whole.
ShardingRule boxSharding(const SbpContext &ctx, const Shape &shape, const Box &box);

/// Definitions: the attributes of a box.
void sliceAttrs(OpRegistry &op);
void narrowAttrs(OpRegistry &op);
extern const char *const kBoxDoc;
/// A sample with them.
Case &withBox(Case &c, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> step);

} // namespace opc::ops
