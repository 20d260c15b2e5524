// What the tasks of a plan cost, at the sizes that a run has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpCost.h"
#include "Session.h"
#include "plan.pb.h"

#include <string_view>
#include <vector>

namespace opc::cli {

struct TaskCost {
  OpCost cost;
  bool isDouble = false; // it computes in f64
};

/// The plan of a file, at the sizes that the inputs have; the largest where no input says. Errors: those of reading it.
Result<plan::Plan> planAtSizes(std::string_view file, const std::vector<PortInfo> &inputs);

/// By task of what the rank runs. Nothing costs what has no op in the registry: steps between ranks.
std::vector<TaskCost> taskCosts(const plan::Plan &plan, const Registry &registry, int64_t rank = 0);

} // namespace opc::cli
