// A graph for Model Explorer, a viewer of graphs: its JSON of graph collections.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphMatch.h"
#include "JsonOutput.h"

#include <string>

namespace opc::cli {

/// One graph, whose nodes are nested by the parts of their names between slashes.
Json modelExplorerJson(const GraphFacts &facts, const std::string &name);

/// Data on the nodes of that graph, which the viewer colours by them: operations or bytes that an op costs.
Json modelExplorerCosts(const GraphFacts &facts, const std::string &name, double GraphOp::*cost, const char *title);

/// Two graphs, and, as a document of its own, which node of the first is which of the second: what has no partner is
/// highlighted.
struct ModelExplorerPair {
  Json graphs, navigation;
};
ModelExplorerPair modelExplorerPair(const FactNodes &a, const std::string &nameA, const FactNodes &b,
                                    const std::string &nameB, const GraphMatch &match);

} // namespace opc::cli
