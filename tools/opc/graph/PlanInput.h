// A plan file in the terms in which graphs are shown.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"
#include "Session.h"

namespace opc::cli {

/// The tasks as ops, the interface as inputs, outputs and variables.
GraphInfo graphOfPlan(const PlanDescription &plan);
MemoryInfo memoryOfPlan(const PlanDescription &plan);

} // namespace opc::cli
