// The job of a plan that does not have all of its values itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OutsideValues.h"
#include "PlanSharding.h"

namespace opc::runtime {

/// readJob(), with data of variables that lies outside.
Result<JobPlan> readJob(const plan::Plan &plan, int64_t ranks, const OutsideValues &outside);

} // namespace opc::runtime
