// Estimated seconds of a boxing step, and which changes of state are one collective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"

namespace opc {

/// Whether collectiveStep gives a step.
bool isCollective(const NdSbp &from, const NdSbp &to, const std::vector<int64_t> &dims);
/// The collective that changes one mesh dimension of a state; nothing when the states differ in another number of
/// dimensions, or when an inner dimension splits the axis that this one splits before or after: pieces then do not line
/// up within the group.
std::optional<BoxingStep> collectiveStep(const NdSbp &from, const NdSbp &to, const std::vector<int64_t> &dims);

/// Seconds of a collective on a mesh; `elementSize` in bytes. Dimensions of one device cost nothing.
double collectiveSeconds(const BoxingStep &step, const Shape &shape, size_t elementSize,
                         const std::vector<int64_t> &dims, const MeshLinks &links);

/// Seconds of exchanges between states. Estimated without the exact assignment of BoxingExchange: what the busiest
/// device receives, each piece over the innermost mesh dimension that reaches it (`between` on different placements),
/// one message a piece; scaled up when the holders of a piece must send more than that. Devices at the corners and in
/// the middle of the mesh stand for all.
class ExchangeCosts {
public:
  /// The arguments must outlive this. Partial states may be among those given; seconds() must not be asked about them.
  ExchangeCosts(const Shape &shape, size_t elementSize, const std::vector<NdSbp> &from, const Placement &source,
                const std::vector<NdSbp> &to, const Placement &target, const MeshLinks &links);
  /// By index of the states given.
  double seconds(size_t from, size_t to);
  /// No more than seconds(), and quickly.
  double atLeast(size_t from, size_t to);

private:
  /// Half-open intervals of a box, begin and end of each axis in turn.
  using Span = std::vector<int64_t>;
  struct From {
    std::vector<std::vector<int64_t>> pieceEnds; // by axis, of its pieces that are not empty, ascending
    /// By sampled device of the target: what lies within reach of the inner dimensions after each that splits; the last
    /// is what the device itself holds. On different placements only that, when the device is among the source's.
    std::vector<std::vector<Span>> reach;
    std::vector<Link> links;     // of those dimensions
    std::vector<size_t> dims;    // those dimensions
    std::vector<double> holders; // for each, the devices of inner dimensions that hold the same
    std::vector<Span> held;      // by sampled device of the source
    double replicas = 1;
  };
  struct To {
    std::vector<Span> wanted;                        // by sampled device of the target
    std::vector<std::optional<Span>> wantedBySource; // by sampled device of the source
    /// On one placement, by sampled device and mesh dimension: what the dimensions before it leave; and by dimension,
    /// how many devices of it and of those after it want the same.
    std::vector<std::vector<Span>> outer;
    std::vector<double> alike;
    double replicas = 1, localBytes = 0;
  };
  struct Load {
    double seconds = 0, elements = 0;
  };
  Load received(const From &from, const To &to, size_t sample) const;
  double sentSeconds(const From &from, const To &to, size_t sample) const;
  Span spanOf(const NdSbp &states, const Placement &placement, int64_t position) const;
  int64_t piecesIn(const From &from, const int64_t *span) const;

  void prepareFrom(size_t state);
  void prepareTo(size_t state);

  const Shape &shape_;
  double elementSize_, copyBandwidth_;
  size_t rank_;
  bool onePlacement_;
  const std::vector<NdSbp> &fromStates_, &toStates_;
  const Placement &source_, &target_;
  const MeshLinks &links_;
  std::vector<int64_t> senders_, receivers_; // sampled positions of the source and of the target
  std::vector<From> from_;                   // by state, when asked for
  std::vector<To> to_;
};

} // namespace opc
