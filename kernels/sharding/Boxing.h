// Boxing: how a tensor gets from one state to another, as steps that are each one collective; their bytes and seconds.
// The planner, the plan, the simulator and the communication layer all count with this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NdSbp.h"
#include "Placement.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

namespace opc {

enum class BoxingKind : uint8_t {
  kSlice,         // B -> S: everybody keeps a piece; nothing travels
  kPartialOf,     // B -> P: the first of the group keeps the value, the others hold zeros; nothing travels
  kPad,           // S -> P: zeros around the piece; nothing travels
  kAllGather,     // S -> B
  kAllToAll,      // S(i) -> S(j)
  kReduceScatter, // P -> S
  kAllReduce,     // P -> B
  kExchange,      // any state without P -> any state without P, on the same or on different placements: every device
                  // gets what it misses from the nearest that has it (docs/sbp.md)
};
const char *boxingKindName(BoxingKind kind); // "slice", "partial_of", "pad", "all_gather", "all_to_all", ...
std::optional<BoxingKind> parseBoxingKind(const std::string &name);

/// How addends are put together. kMax serves the maxima of a split softmax.
enum class BoxingReduction : uint8_t { kSum, kMax };

/// One step. All but kExchange keep the placement and change the state on one mesh dimension.
struct BoxingStep {
  BoxingKind kind = BoxingKind::kSlice;
  int32_t meshDim = -1; // the mesh dimension that changes; -1 for kExchange
  NdSbp from, to;
  BoxingReduction reduction = BoxingReduction::kSum;
};

/// A step of a given tensor between given devices: all that is needed to carry it out.
struct BoxingOp {
  BoxingStep step;
  Shape shape; // logical
  DataType type = kInvalidDataType;
  Placement source, target; // equal but for kExchange
};

/// A piece of the logical tensor that travels between this rank and another one.
struct BoxingTransfer {
  int64_t rank = 0; // of the job
  Box box;          // in logical coordinates
};
/// What a rank sends and receives in a step, itself left out, ordered by rank. For kReduceScatter: every other member's
/// piece is sent to it, as an addend, and the own piece comes from each of them. For kAllReduce the local box is
/// taken as a flat row of elements, split over the group in balanced pieces; `box` is then one axis [begin, size) of
/// that row; these are the sends and receives of the first half (reduce); the second half (gather) sends the own piece
/// to every member and receives theirs.
struct BoxingTraffic {
  std::vector<BoxingTransfer> sends, receives;
};
BoxingTraffic boxingTraffic(const BoxingOp &op, int64_t rank);
/// Bytes that a rank sends in all, both halves of an all-reduce included. docs/sbp.md has the formulas.
int64_t bytesSent(const BoxingOp &op, int64_t rank);

/// How fast one dimension of a mesh is: seconds of latency a message, and bytes a second that a device can send.
struct Link {
  double latency = 5e-6;
  double bandwidth = 10e9;
};
/// The links of each mesh dimension, outermost first, and those between placements.
struct MeshLinks {
  std::vector<Link> dims;
  Link between;
  /// By mesh dimension, for kinds of steps that have another link than `dims` says; may be shorter than `dims`.
  std::vector<std::map<BoxingKind, Link>> kinds;

  /// The link of a kind of step on a dimension; `between` for dimensions that are not in `dims`.
  const Link &of(size_t dim, BoxingKind kind) const;
};

/// Estimated seconds of a step: latency times messages in sequence plus the most bytes that a device sends over the
/// bandwidth. A ring: p - 1 messages for gather, scatter and all-to-all, 2 (p - 1) for all-reduce; a logarithm of p
/// where that is less. Steps that send nothing cost what copying the local bytes takes.
double boxingSeconds(const BoxingOp &op, const MeshLinks &links);

/// The cheapest steps from one state to another on one placement (empty when they are equal): the shortest path over
/// the legal states, and kExchange where it is cheaper and neither end has a partial sum. Ties: fewer steps, then the
/// earlier state in legalStates. Both states must be legal (empty parts allowed).
std::vector<BoxingStep> boxingPath(const Shape &shape, DataType type, const NdSbp &from, const NdSbp &to,
                                   const Placement &placement, const MeshLinks &links);
/// The same between different placements: partial sums are first reduced (to splits where that is possible) on the
/// source, then one kExchange, then what the target still needs. The steps in order, each with its placements.
std::vector<BoxingOp> boxingPath(const Shape &shape, DataType type, const NdSbp &from, const Placement &source,
                                 const NdSbp &to, const Placement &target, const MeshLinks &sourceLinks,
                                 const MeshLinks &targetLinks);

/// Seconds between any two of `states` (from, to), row by row: the sum of the steps of the cheapest path; 0 on the
/// diagonal. `states` as legalStates gives them.
std::vector<double> boxingMatrix(const Shape &shape, DataType type, const std::vector<NdSbp> &states,
                                 const Placement &placement, const MeshLinks &links);

} // namespace opc
