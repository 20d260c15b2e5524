// The loop of a region: its steps that compute, and what they read through those that move elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MoveAccess.h"
#include "TilePlan.h"

namespace opc {

struct RegionCore {
  std::shared_ptr<const Region> region; // without steps that move
  std::vector<size_t> steps;            // by step of `region`: which of the whole region's it is
  std::vector<LoopInput> inputs;        // by input of `region`; values are those of the whole region
  /// Where the elements of its inputs are: what is moved is found by its sources.
  std::vector<TileAccess> access() const;
};

/// Of a region that is complete.
RegionCore coreOf(std::shared_ptr<const Region> whole);

} // namespace opc
