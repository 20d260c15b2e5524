// A plan file in the terms in which graphs are shown.
// SPDX-License-Identifier: Apache-2.0
#include "PlanInput.h"

#include <algorithm>

namespace opc::cli {

namespace {

GraphTensor tensorOf(const std::string &name, const std::string &tensor, const user_op::TensorDesc &desc) {
  GraphTensor t;
  t.name = name;
  t.tensor = tensor;
  t.dtype = desc.data_type();
  t.shape = desc.shape();
  return t;
}

} // namespace

GraphFacts factsOfPlan(const PlanDescription &plan) {
  GraphFacts info;
  info.format = "plan of " + plan.graph + " by " + plan.producer;
  auto ports = [](const std::vector<PlanDescription::Port> &from, std::vector<GraphTensor> *to) {
    for (const PlanDescription::Port &p : from) {
      to->push_back(tensorOf(p.name, p.tensor, p.desc));
      to->back().trainable = p.trainable;
    }
  };
  ports(plan.inputs, &info.inputs);
  ports(plan.outputs, &info.outputs);
  ports(plan.variables, &info.variables);
  for (size_t i = 0; i < plan.tasks.size(); ++i) {
    const ObservedTask &t = plan.tasks[i];
    GraphOp op;
    op.name = t.name;
    op.type = t.type;
    for (const ObservedTensor &in : t.inputs)
      op.inputs.push_back({in.argument + "_" + std::to_string(in.index), in.name});
    for (const ObservedTensor &out : t.outputs)
      op.outputs.push_back(tensorOf(out.argument + "_" + std::to_string(out.index), out.name, out.desc));
    op.attrs.insert(plan.attrs[i].begin(), plan.attrs[i].end());
    op.range.file = t.where.file;
    op.range.line = t.where.line;
    op.range.column = t.where.column;
    info.ops.push_back(std::move(op));
  }
  info.costs.peakBytes = plan.arenaBytes;
  info.costs.persistentBytes = plan.persistentBytes;
  info.costs.tasks = plan.tasks.size();
  MemoryFacts &memory = info.memory;
  memory.arenaBytes = plan.arenaBytes;
  memory.persistentBytes = plan.persistentBytes;
  memory.activationBytes = plan.arenaBytes - std::min(plan.persistentBytes, plan.arenaBytes);
  memory.liveLowerBound = plan.liveLowerBound;
  for (const PlanDescription::Buffer &b : plan.buffers)
    memory.slots.push_back({b.name, b.offset, b.bytes, b.firstTask, b.lastTask, b.kind});
  return info;
}

} // namespace opc::cli
