// What all pads share: how much is added to each axis, and what follows for shapes and signatures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/Moves.h"
#include "shape/PlaneArguments.h"
#include "support/PieceRange.h"
#include "support/SbpRules.h"

namespace opc::ops {

/// One entry an axis; negative entries cut.
struct Pads {
  std::vector<int64_t> before, after;
  /// The axes that they change.
  std::vector<int64_t> axes() const;
};
/// PyTorch's order: pairs for the last axis, the one before it, and so on.
Maybe<Pads> padsOfPairs(const std::vector<int64_t> &pairs, int64_t rank);
Maybe<Shape> paddedShape(const Shape &in, const Pads &pads);

// The pads that mirror or repeat the edge of the last axes.

struct EdgeForm {
  bool reflects;
  int axes;
};
constexpr EdgeForm kReflect1d{true, 1}, kReflect2d{true, 2}, kReplicate1d{false, 1}, kReplicate2d{false, 2};

/// A pad of the last one or two axes, seen as planes of rows. Element (r, c) of an output plane is element
/// (rows[r], columns[c]) of the input's; the input's own columns begin at output column `left`.
struct EdgePads {
  std::vector<int64_t> rows, columns;
  int64_t planes = 0, inColumns = 0, inPlane = 0, left = 0;
};
/// The paddings of attribute padding. Fails when they do not fit `in`, the shape of the tensor that is padded.
Maybe<Pads> padsOfEdge(const OpContext &ctx, const Shape &in, EdgeForm form);
EdgePads edgePadsOf(const OpContext &ctx, const Shape &in, EdgeForm form);
/// The same for device code: a pad from `from`, of this shape, to `to`, or, in a gradient, the other way.
EdgeArguments edgeArguments(const OpContext &ctx, const Shape &in, EdgeForm form, const void *from, void *to);
/// Axes without padding split.
template <EdgeForm form> Maybe<ShardingRule> edgeSharding(const SbpContext &ctx) {
  const Shape &x = ctx.In("x").shape();
  return alikeRule(ctx, x.NumAxes(), JUST(padsOfEdge(ctx, x, form)).axes());
}

} // namespace opc::ops
