// What a plan may say and no executor does by itself: tasks of several ops, devices of tasks, sizes with a bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include "plan.pb.h"

namespace opc {

/// Puts the body of every task of type "opc.fused" that is neither a region nor a batch of updates in its place, and
/// checks what only it can check: that a body computes the task's outputs from its inputs (OPC0816), that a task is on
/// the device of its stream (OPC0820), and that bounds fit their tensors (OPC0812), and what a plan says of its sizes
/// (checkPlanSizes). Dimensions that follow from no size of the plan are refused: no executor takes them. decodePlan()
/// calls it.
Status resolveRegions(plan::Plan *plan);

} // namespace opc
