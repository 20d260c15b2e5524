// Which node of one graph is which of another: by name, by structure, by neighbours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FactNodes.h"

#include <cstdint>
#include <vector>

namespace opc {

enum class MatchedBy : uint8_t { kNothing, kName, kStructure, kNeighbours };

struct GraphMatch {
  std::vector<int32_t> ofA, ofB; // by node the partner in the other graph; -1: none
  std::vector<MatchedBy> byB;    // what found the partner of b's node
  /// Nodes with a partner, of all nodes of both graphs; 1 for two empty graphs.
  double quality() const;
};

/// Inputs, variables and outputs that both graphs have by name are the same ones, since values are bound to them by
/// name. Other nodes are matched in this order: by name and type, where what is above or below them agrees, too; by
/// structural hash, ties broken by neighbours that are matched already, then by position; greedily by neighbours, for
/// which a name counts as one; by name alone; an op that is left by what it reads and what reads it. Takes about n log
/// n steps.
GraphMatch matchGraphs(const FactNodes &a, const FactNodes &b);

} // namespace opc
