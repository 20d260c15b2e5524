// Graphs of tasks (if, loop, batch_parts): plans in a plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"
#include "plan.pb.h"

#include <cstdint>

namespace opc {

/// Graphs of tasks in one another, and graphs of one task.
constexpr int kMostPlanGraphDepth = 8, kMostTaskGraphs = 2;

/// Checks what a plan in a plan may be (OPC0826): of one rank, with fixed shapes, one stream and no variables, machine
/// code or credits of its own, and not too deep. decodePlan() calls it before anything looks at the graphs.
Status checkPlanGraphs(const plan::Plan &plan);

/// The bytes that a task's graphs take, those of the tasks in them too: their arenas, but for inputs that they read in
/// the task's own. UINT64_MAX where that is more.
uint64_t taskGraphBytes(const plan::Task &task);

} // namespace opc
