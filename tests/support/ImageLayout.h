// Images in tests: channels first or last, any number of spatial dimensions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Shape.h"

#include <vector>

namespace opc::test {

inline size_t z(int64_t i) { return static_cast<size_t>(i); }

inline Shape layout(int64_t n, int64_t c, const std::vector<int64_t> &s, bool last) {
  DimVector d{n};
  if (!last) d.push_back(c);
  d.insert(d.end(), s.begin(), s.end());
  if (last) d.push_back(c);
  return Shape(d);
}

/// Index of (n, c, position) in a tensor of this layout; position is linear over the spatial dimensions.
inline size_t at(int64_t n, int64_t c, int64_t position, int64_t channels, int64_t positions, bool last) {
  return z(last ? (n * positions + position) * channels + c : (n * channels + c) * positions + position);
}

} // namespace opc::test
