// Boxes that slice and narrow cut out of a tensor, and that slice_update and the gradients write into one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/Moves.h"
#include "support/PieceRange.h"
#include "support/SignatureLists.h"

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

/// Signatures: axes of the whole tensor, one with `shape`, that the box takes whole may be split in all tensors, and
/// all may be partial sums. `cut` adds those of an axis that the box cuts: each device deals with what it has.
void addBoxSignatures(SbpContext *ctx, const Shape &shape, const Box &box, const std::function<void(int64_t)> &cut);

/// Definitions: the attributes of a box.
void sliceAttrs(OpRegistry &op);
void narrowAttrs(OpRegistry &op);
extern const char *const kBoxDoc;
/// A sample with them.
Case &withBox(Case &c, std::vector<int64_t> start, std::vector<int64_t> stop, std::vector<int64_t> step);

} // namespace opc::ops
