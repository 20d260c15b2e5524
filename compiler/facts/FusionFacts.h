// Which ops one loop computes, and why the others are alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace opc {

/// Why an op is in no region, or not in that of an op beside it (FusionReasons.h).
enum class FusionReason : int;

/// Of one graph; on a mesh, of that of some ranks.
struct FusionFacts {
  struct Region {
    std::vector<std::string> ops; // in the order in which they are computed
    int64_t bytesMoved = 0;       // in a run
    int64_t bytesSaved = 0;       // what the ops move one by one, less that
    /// Why no machine code computes it; empty where some does.
    std::string withoutCode;
  };
  /// An op in no region.
  struct Alone {
    std::string op, type;
    std::vector<FusionReason> reasons; // in their order, each once
  };
  /// Two ops with loops, the second reads a tensor of the first, that are not in one region.
  struct Boundary {
    std::string from, to, tensor;
    FusionReason reason;
  };
  /// Ops that are computed for one part of the batch after the other.
  struct Parts {
    std::string op;               // that they are in the compiled graph
    std::vector<std::string> ops; // in their order
    int64_t parts = 0;
    int64_t bytesSaved = 0; // what they hand to each other, written and read
  };
  /// The graph of an op whose work is graphs; of parts of a batch, that of one part.
  struct Graph {
    std::string op, attribute; // "batch", "graph"
    std::shared_ptr<const FusionFacts> facts;
  };
  std::vector<Graph> graphs; // in the order of the ops
  std::vector<Parts> parts;
  std::vector<Region> regions; // in an order of execution
  std::vector<Alone> alone;
  std::vector<Boundary> boundaries;
};

} // namespace opc
