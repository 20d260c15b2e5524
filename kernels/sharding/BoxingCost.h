// Estimated seconds of a boxing step, and which changes of state are one collective.
#pragma once

#include "Boxing.h"

namespace opc {

/// The collective that changes one mesh dimension of a state; nothing when the states differ in another number of
/// dimensions, or when an inner dimension splits the axis that this one splits before or after: pieces then do not line
/// up within the group.
std::optional<BoxingStep> collectiveStep(const NdSbp &from, const NdSbp &to, const std::vector<int64_t> &dims);

/// Seconds of a collective on a mesh; `elementSize` in bytes. Dimensions of one device cost nothing.
double collectiveSeconds(const BoxingStep &step, const Shape &shape, size_t elementSize,
                         const std::vector<int64_t> &dims, const MeshLinks &links);

/// Seconds of exchanges that start in one state. Estimated without the exact assignment of BoxingExchange: what the
/// busiest device receives, each piece over the innermost mesh dimension that reaches it (`between` on different
/// placements), one message a piece; scaled up when the holders of a piece must send more than that. Devices at the
/// corners and in the middle of the mesh stand for all.
class ExchangeCost {
public:
  ExchangeCost(const Shape &shape, size_t elementSize, const NdSbp &from, const Placement &source,
               const MeshLinks &links);
  double seconds(const NdSbp &to, const Placement &target) const;

private:
  struct Load {
    double seconds = 0, elements = 0;
  };
  /// What the device at a position of the target receives.
  Load received(const NdSbp &to, const Placement &target, int64_t position, bool onePlacement) const;
  int64_t piecesIn(const Box &box) const;

  const Shape &shape_;
  size_t elementSize_;
  const NdSbp &from_;
  const Placement &source_;
  const MeshLinks &links_;
  std::vector<std::vector<int64_t>> pieceEnds_; // by axis, of its pieces that are not empty, ascending
};

} // namespace opc
