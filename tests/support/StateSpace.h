// All states of a tensor on a mesh, for tests that try every pair.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NdSbp.h"

#include <vector>

namespace opc::test {

/// Every combination of `kinds` on the dimensions of a mesh.
inline std::vector<NdSbp> allStates(const std::vector<SbpParallel> &kinds, size_t meshRank) {
  std::vector<NdSbp> states{{}};
  for (size_t d = 0; d < meshRank; ++d) {
    std::vector<NdSbp> more;
    for (const NdSbp &s : states)
      for (const SbpParallel &kind : kinds) {
        more.push_back(s);
        more.back().push_back(kind);
      }
    states = more;
  }
  return states;
}

} // namespace opc::test
