// The ops of a plan as instances: what prices and measurements are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpCost.h"
#include "OpInstance.h"
#include "Registry.h"
#include "plan.pb.h"

#include <string>
#include <vector>

namespace opc::simulate {

/// The op of a task on the local tensors of its part, without inference: the plan has the shapes. `rank`: one that has
/// the part, for where its pieces lie; -1 for a plan of one rank. `plan` is the whole plan. Errors: OPC0201, OPC0745,
/// and those of completeOpConf. The tensor indices of the part must be in range.
Result<OpInstance> opOfTask(const plan::Plan &plan, const plan::Plan &part, const plan::Task &task,
                            const Registry &registry, int64_t rank = -1);

/// Whether a task runs once, before the first step. The tensor indices of the part must be in range.
bool isPrepared(const plan::Plan &part, const plan::Task &task);

/// How often a step runs a graph of the op, where its work is graphs: the parts of a batch, the turns that a loop has
/// room for (1 where nothing says how many).
double graphRuns(const OpInstance &op);

/// The cost of a task whose op is `op`; of a region that of its loop, of an op with graphs that of all that they
/// compute (of two branches the larger one). Errors: those of opOfTask.
Result<OpCost> costOfTask(const plan::Plan &plan, const plan::Plan &part, const plan::Task &task,
                          const Registry &registry, const OpInstance &op);

/// Everything that the price of a task depends on: equal for tasks of equal cost.
std::string costKey(const plan::Plan &part, const plan::Task &task);

struct PlanOp {
  OpInstance op;
  std::vector<bool> constant; // inputs that never change: constants, prepared tensors, variables that no task writes
};
/// One instance of every different op of a plan and of the graphs in its ops, boxing, views and what runs once left
/// out, and those that cannot be made.
std::vector<PlanOp> distinctOps(const plan::Plan &plan, const Registry &registry);

} // namespace opc::simulate
