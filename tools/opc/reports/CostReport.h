// What a graph costs, and the tasks that it becomes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "JsonOutput.h"

#include <string>

namespace opc::cli {

/// Sums, and the ops that cost most.
std::string costText(const GraphFacts &facts, size_t width);
/// "flops", "bytes", "comm_bytes", "peak_bytes", "persistent_bytes", "tasks", "ops".
void addCostJson(const GraphFacts &facts, Json *document);

std::string tasksText(const GraphFacts &facts, size_t width);
Json tasksJson(const GraphFacts &facts);

} // namespace opc::cli
