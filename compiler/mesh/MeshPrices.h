// What the planner takes computing and travelling to cost: how fast devices are, and what joins them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"
#include "DeviceSpeed.h"
#include "MeshRequest.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace opc {

struct MeshPrices {
  DeviceSpeed device;
  /// Of the mesh and then of each stage; missing ones have Link's defaults.
  std::vector<MeshLinks> links;
  /// What joins two placements (0: the mesh, i: the i-th stage), the lower one first; others have Link's defaults.
  std::map<std::pair<uint32_t, uint32_t>, Link> between;

  /// The links of a placement, with what joins it to another one.
  MeshLinks linksOf(uint32_t placement, uint32_t other) const;
  MeshLinks linksOf(uint32_t placement) const { return linksOf(placement, placement); }
};

/// The request's own, or the defaults.
const MeshPrices &pricesOf(const MeshRequest &request);

} // namespace opc
