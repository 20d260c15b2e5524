// Boxes that slice and narrow cut out of a tensor, and that slice_update and the gradients write into one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/Moves.h"
#include "support/PieceRange.h"
#include "support/SbpRules.h"

namespace opc::ops {

/// The first index of each axis, its step, and how many indices it takes.
struct Box {
  DimVector first, step, count;
};
/// Attributes start, stop and step, and dim, start and length, for a tensor of shape `shape`.
Maybe<Box> sliceBox(const OpContext &ctx, const Shape &shape);
Maybe<Box> narrowBox(const OpContext &ctx, const Shape &shape);

/// What a device deals with of a box in the whole tensor: the box's entries that its pieces of two arguments have, of
/// `whole`, in which the box lies, and of `part`, which has the box's shape.
struct BoxPiece {
  DimVector count;
  Place inWhole, inPart;
  BoxPiece(const KernelContext *ctx, const Box &box, const char *whole, const char *part);
};
/// out = the elements of `in` in the box, zeros for those that another device has.
std::unique_ptr<BoundKernel> bindReadBox(KernelBindContext *ctx, const Box &box, const char *in, const char *out);
/// out = `base`, or zeros, with the elements of `in` in the box.
std::unique_ptr<BoundKernel> bindWriteBox(KernelBindContext *ctx, const Box &box, const char *in, const char *out,
                                          const char *base = nullptr);

/// The terms of the whole tensor, of shape `shape`, and of the box: axes that it takes whole are the same in both. Of
/// one that it cuts each device may have a piece of either, and deals with what it has.
struct BoxFactors {
  AxisFactors whole, part, cutWhole, cutPart;
  BoxFactors(const Shape &shape, const Box &box);
};

/// Definitions: the attributes of a box.
void sliceAttrs(OpRegistry &op);
void narrowAttrs(OpRegistry &op);
extern const char *const kBoxDoc;
/// A sample with them.
Case &withBox(Case &c, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> step);

} // namespace opc::ops
