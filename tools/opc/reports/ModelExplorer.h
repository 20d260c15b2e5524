// A graph for Model Explorer, a viewer of graphs: its JSON of graph collections.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "JsonOutput.h"

#include <string>

namespace opc::cli {

/// One graph, whose nodes are nested by the parts of their names between slashes.
Json modelExplorerJson(const GraphFacts &facts, const std::string &name);

} // namespace opc::cli
