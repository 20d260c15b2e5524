// What the tasks of a plan cost.
// SPDX-License-Identifier: Apache-2.0
#include "TaskCosts.h"

#include "DeviceSpeed.h"
#include "PlanFile.h"
#include "PlanOps.h"
#include "PlanSizes.h"

#include <optional>

namespace opc::cli {

Result<plan::Plan> planAtSizes(std::string_view file, const std::vector<PortInfo> &inputs) {
  OPC_ASSIGN_OR_RETURN(plan::Plan plan, decodePlan(file));
  if (!hasSizes(plan)) return plan;
  std::vector<std::optional<int64_t>> known(static_cast<size_t>(plan.size_size()));
  for (const auto &port : plan.interface().input())
    for (const PortInfo &given : inputs)
      if (given.name == port.name()) {
        const DimVector &dims = given.desc.shape().dim_vec();
        (void)sizesOf(plan, plan.tensor(static_cast<int>(port.tensor())), {dims.begin(), dims.end()}, &known);
      }
  SizeValues sizes = largestSizes(plan);
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = known[i].value_or(sizes[i]);
  fixSizes(&plan, sizes);
  return plan;
}

std::vector<TaskCost> taskCosts(const plan::Plan &plan, const Registry &registry, int64_t rank) {
  const bool hasParts = plan.part_size() > 0;
  const plan::Plan &part = hasParts ? plan.part(static_cast<int>(plan.part_of_rank(static_cast<int>(rank)))) : plan;
  std::vector<TaskCost> costs(static_cast<size_t>(part.task_size()));
  for (int i = 0; i < part.task_size(); ++i) {
    const plan::Task &task = part.task(i);
    const Result<OpInstance> op = simulate::opOfTask(plan, part, task, registry, hasParts ? rank : -1);
    if (!op) continue;
    TaskCost &cost = costs[static_cast<size_t>(i)];
    if (const Result<OpCost> known = simulate::costOfTask(plan, part, task, registry, *op)) cost.cost = *known;
    cost.isDouble = computeType(*op) == kDouble;
  }
  return costs;
}

} // namespace opc::cli
