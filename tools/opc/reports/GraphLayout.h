// Where the nodes of a graph stand in a drawing: forward ops in one lane, each backward op beside what it is of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FactNodes.h"

#include <cstdint>
#include <vector>

namespace opc::cli {

struct GraphLayout {
  struct Place {
    int32_t row = -1;  // -1: not drawn; variables stand in their readers
    uint32_t lane = 0; // 0 forward, 1 backward, 2 optimizer and what else there is
    double x = 0;      // of the left edge, in columns
  };
  std::vector<Place> places; // by node
  int32_t rows = 0;
  double laneStart[4] = {}; // in columns; the last is where the drawing ends
};

/// Depends on the order of the nodes alone. Linear but for sorting within rows.
GraphLayout layOut(const FactNodes &graph);

} // namespace opc::cli
