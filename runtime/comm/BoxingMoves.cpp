// What a boxing step that adds nothing up does on one rank.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingMoves.h"

#include <algorithm>

namespace opc::runtime {
namespace {

Box relative(Box box, const std::vector<int64_t> &origin) {
  for (size_t a = 0; a < origin.size(); ++a) box.begin[a] -= origin[a];
  return box;
}

} // namespace

BoxingMoves movesOf(const std::vector<BoxingOp> &ops, int64_t rank) {
  BoxingMoves moves;
  for (size_t i = 0; i < ops.size(); ++i) {
    const BoxingOp &op = ops[i];
    const size_t elementSize = GetSizeOfDataType(op.type);
    const auto source = op.source.positionOf(rank), target = op.target.positionOf(rank);
    const Box from = source ? localBox(op.shape, op.step.from, op.source.dims, *source) : Box();
    const Box to = target ? localBox(op.shape, op.step.to, op.target.dims, *target) : Box();
    const auto input = [&](const Box &logical) {
      return CommBlock{nullptr, from.size, relative(logical, from.begin), elementSize};
    };
    const auto output = [&](const Box &logical) {
      return CommBlock{nullptr, to.size, relative(logical, to.begin), elementSize};
    };
    // What this rank has and wants.
    bool keeps = true;
    if (op.step.kind == BoxingKind::kPartialOf || op.step.kind == BoxingKind::kPad) {
      moves.fillFirst = true;
      // Maxima of equal values need no neutral one.
      keeps = op.step.kind == BoxingKind::kPad || op.step.reduction == BoxingReduction::kMax ||
              op.source.coordinates(*source)[static_cast<size_t>(op.step.meshDim)] == 0;
    }
    int64_t covered = 0;
    if (source && target && keeps) {
      const Box both = intersect(from, to);
      covered = both.elements();
      if (covered > 0) moves.copies.push_back({i, input(both), output(both)});
    }
    const BoxingTraffic traffic = boxingTraffic(op, rank);
    for (const BoxingTransfer &s : traffic.sends) moves.sends.push_back({i, s.rank, input(s.box)});
    for (const BoxingTransfer &r : traffic.receives) {
      moves.receives.push_back({i, r.rank, output(r.box)});
      covered += intersect(r.box, to).elements();
    }
    moves.covered.push_back(covered);
  }
  return moves;
}

std::vector<int64_t> ranksOf(const BoxingOp &op, int64_t rank) {
  std::vector<int64_t> ranks;
  if (op.step.kind == BoxingKind::kExchange) {
    ranks = op.source.ranks;
    ranks.insert(ranks.end(), op.target.ranks.begin(), op.target.ranks.end());
  } else if (const auto position = op.source.positionOf(rank)) {
    for (int64_t p : op.source.group(*position, op.step.meshDim))
      ranks.push_back(op.source.ranks[static_cast<size_t>(p)]);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::vector<CommBlock> piecesOf(const BoxingOp &op, int64_t rank, const std::vector<int64_t> &members) {
  const bool gathers = op.step.kind == BoxingKind::kAllGather;
  const NdSbp &whole = gathers ? op.step.to : op.step.from, &cut = gathers ? op.step.from : op.step.to;
  const Box all = localBox(op.shape, whole, op.source.dims, *op.source.positionOf(rank));
  std::vector<CommBlock> pieces;
  for (int64_t member : members) {
    const Box piece = localBox(op.shape, cut, op.source.dims, *op.source.positionOf(member));
    pieces.push_back({nullptr, all.size, relative(piece, all.begin), GetSizeOfDataType(op.type)});
  }
  return pieces;
}

} // namespace opc::runtime
