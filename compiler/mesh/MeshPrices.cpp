// What joins the devices of a mesh and of its stages.
// SPDX-License-Identifier: Apache-2.0
#include "MeshPrices.h"

#include <algorithm>

namespace opc {

MeshLinks MeshPrices::linksOf(uint32_t placement, uint32_t other) const {
  MeshLinks found = placement < links.size() ? links[placement] : MeshLinks();
  if (other == placement) return found;
  const auto joined = between.find(std::minmax(placement, other));
  found.between = joined == between.end() ? Link() : joined->second;
  return found;
}

const MeshPrices &pricesOf(const MeshRequest &request) {
  static const MeshPrices defaults;
  return request.prices ? *request.prices : defaults;
}

} // namespace opc
