// What is doubtful in a graph by itself, without another to compare it with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "GraphFinding.h"

#include <vector>

namespace opc {

/// DEAD_OP, UNUSED_INPUT, GRAD_MISSING, NUMERIC_HAZARD. `facts` are of the ops as they are written, with the tasks of
/// the plan: an op that nothing reads and that is a task all the same has an effect.
std::vector<GraphFinding> lintGraph(const GraphFacts &facts);

} // namespace opc
