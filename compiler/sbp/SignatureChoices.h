// What each op could have had in place of its signature, and what that would cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "SignatureProblem.h"

namespace opc {

/// Fills `facts->choices`: for each op that makes tensors its cheapest signatures, priced with all other ops as the
/// solution has them.
void describeChoices(const SignatureProblem &problem, const planner::Solution &solution, MeshFacts *facts);

} // namespace opc
