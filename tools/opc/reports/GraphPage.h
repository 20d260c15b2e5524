// Everything about a graph on one page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"

#include <string>

namespace opc::cli {

/// Tabs for the summary, the graph, its ops with their costs, and what is known besides: memory, states and
/// transitions, tasks. `name` is the file.
std::string graphHtml(const GraphFacts &facts, const std::string &name);

} // namespace opc::cli
