// Hashes of the nodes of a graph by what they are and how they are joined, not by their names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FactNodes.h"

#include <cstdint>
#include <string>
#include <vector>

namespace opc {

struct NodeHashes {
  std::vector<uint64_t> own;  // type and content
  std::vector<uint64_t> up;   // and everything that it is computed from
  std::vector<uint64_t> down; // and everything that is computed from it
  std::vector<uint64_t> full; // both, and those of the neighbours in some rounds
};

/// `anchors`: for each node a text that it is known by in both graphs, or "". With `types` the tensors' types count.
NodeHashes hashNodes(const FactNodes &graph, const std::vector<std::string> &anchors, bool types);

} // namespace opc
