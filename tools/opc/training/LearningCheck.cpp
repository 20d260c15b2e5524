// Ops of a plan that write variables.
// SPDX-License-Identifier: Apache-2.0
#include "LearningCheck.h"

#include "MutableInputs.h"
#include "PlanFile.h"
#include "PlanOps.h"

#include <algorithm>

namespace opc::cli {

namespace {

bool writesVariable(const plan::Plan &plan, const plan::Plan &part, const plan::Task &task, const Registry &registry) {
  const user_op::OpDef *def = registry.findOp(task.op_type());
  if (!def || !def->modifyInputs || task.has_boxing()) return false;
  const Result<OpInstance> op = simulate::opOfTask(plan, part, task, registry);
  if (!op) return false;
  const std::vector<bool> written = mutableInputs(*op);
  size_t i = 0;
  for (const user_op::ArgBinding &b : op->conf().inputs)
    for (const std::string &tensor : b.tensors) { // called by its index
      const auto reg = static_cast<int>(part.tensor(std::stoi(tensor)).register_());
      if (written[i++] && part.register_(reg).kind() == plan::Register::VARIABLE) return true;
    }
  return false;
}

} // namespace

bool writesVariables(std::string_view planFile, const Registry &registry) {
  const Result<plan::Plan> plan = decodePlan(planFile);
  if (!plan) return false;
  const auto any = [&](const plan::Plan &part) {
    return std::any_of(part.task().begin(), part.task().end(),
                       [&](const plan::Task &t) { return writesVariable(*plan, part, t, registry); });
  };
  return any(*plan) || std::any_of(plan->part().begin(), plan->part().end(), any);
}

} // namespace opc::cli
