// A plan file in the terms in which graphs are shown.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"
#include "Session.h"

namespace opc::cli {

/// The tasks as ops, the interface as inputs, outputs and variables, and the memory.
GraphFacts factsOfPlan(const PlanDescription &plan);

} // namespace opc::cli
