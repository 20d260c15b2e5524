// A plan file in the terms in which graphs are shown.
// SPDX-License-Identifier: Apache-2.0
#include "PlanInput.h"

#include "ControlOp.h"
#include "LockFile.h"
#include "OpCost.h"
#include "PlanFile.h"
#include "PlanOps.h"
#include "PlanSizes.h"
#include "PrintableText.h"

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

/// What a graph in an op computes, whatever its ops and tensors are called and wherever they stand: a plan has no text
/// of it.
std::string digestOfGraph(const plan::Plan &graph) {
  std::string text;
  const auto number = [&](uint64_t v) { text += std::to_string(v) + ','; };
  for (const plan::Task &t : graph.task()) {
    const std::string key = simulate::costKey(graph, t);
    number(key.size());
    text += key;
    for (const auto *list : {&t.input(), &t.output()})
      for (const plan::Argument &a : *list)
        for (uint32_t tensor : a.tensor()) number(tensor);
    for (const plan::Task &step : t.body())
      for (const auto *list : {&step.input(), &step.output()})
        for (const plan::Argument &a : *list)
          for (uint32_t tensor : a.tensor()) number(tensor);
    for (const plan::Plan &inner : t.graph()) text += digestOfGraph(inner);
  }
  for (const auto *ports : {&graph.interface().input(), &graph.interface().output()}) {
    text += ';';
    for (const auto &port : *ports) number(port.tensor());
  }
  for (const plan::Interface::Constant &c : graph.interface().constant()) {
    number(c.tensor());
    number(c.data().size());
    text += c.data();
  }
  return "sha256:" + digestOf(text);
}

/// What the description leaves out: kernels, what the ops cost, and the graphs in them.
Status addKernels(std::string_view bytes, const Registry &registry, GraphFacts *facts) {
  OPC_ASSIGN_OR_RETURN(plan::Plan plan, decodePlan(bytes));
  fixSizes(&plan, largestSizes(plan));
  const bool hasParts = plan.part_size() > 0;
  const plan::Plan &part = hasParts ? plan.part(static_cast<int>(plan.part_of_rank(0))) : plan;
  size_t next = 0;
  auto add = [&](const plan::Task &task, uint32_t stream, int64_t region) {
    if (next == facts->ops.size()) return;
    GraphOp &op = facts->ops[next++];
    facts->tasks.push_back({op.name, printableName(task.kernel()), stream, std::nullopt, 0, region});
    const std::vector<std::string> graphs = controlGraphs(controlKind(task.op_type()));
    for (size_t k = 0; k < graphs.size() && k < static_cast<size_t>(task.graph_size()); ++k)
      op.attrs[graphs[k]] = AttrValue(digestOfGraph(task.graph(static_cast<int>(k))));
    const Result<OpInstance> instance = simulate::opOfTask(plan, part, task, registry, hasParts ? 0 : -1);
    if (!instance) return; // a step between ranks, or an op that no registry knows
    const Result<OpCost> cost = simulate::costOfTask(plan, part, task, registry, *instance);
    if (!cost) return;
    op.flops = cost->flops;
    op.bytes = cost->bytes;
    facts->costs.flops += cost->flops;
    facts->costs.bytes += cost->bytes;
  };
  for (const plan::Task &task : part.task()) {
    if (task.body_size() == 0) {
      add(task, task.stream(), -1);
      continue;
    }
    for (const plan::Task &step : task.body()) add(step, task.stream(), facts->regions);
    ++facts->regions;
  }
  return Status::ok();
}

} // namespace

Result<GraphFacts> factsOfPlan(std::string_view bytes, const Registry &registry) {
  OPC_ASSIGN_OR_RETURN(const PlanDescription plan, describePlan(bytes, registry));
  GraphFacts info;
  info.format = "plan of " + plan.graph + " by " + plan.producer;
  auto ports = [](const std::vector<PortInfo> &from, std::vector<GraphTensor> *to) {
    for (const PortInfo &p : from) {
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
    for (const ObservedTensor &in : t.inputs) op.inputs.push_back({{in.argument, in.index}, in.name});
    for (const ObservedTensor &out : t.outputs) {
      GraphSlot slot{out.argument, out.index};
      op.outputs.push_back(tensorOf(slot.text(), out.name, out.desc));
      op.outputs.back().slot = std::move(slot);
    }
    op.attrs.insert(plan.attrs[i].begin(), plan.attrs[i].end());
    op.range.file = t.where.file;
    op.range.line = t.where.line;
    op.range.column = t.where.column;
    info.ops.push_back(std::move(op));
  }
  info.costs.peakBytes = plan.arenaBytes;
  info.costs.persistentBytes = plan.persistentBytes;
  info.costs.tasks = plan.tasks.empty() ? 0 : plan.tasks.back().index + 1; // several ops may be one task
  MemoryFacts &memory = info.memory;
  memory.arenaBytes = plan.arenaBytes;
  memory.persistentBytes = plan.persistentBytes;
  memory.activationBytes = plan.arenaBytes - std::min(plan.persistentBytes, plan.arenaBytes);
  memory.liveLowerBound = plan.liveLowerBound;
  for (const PlanDescription::Buffer &b : plan.buffers)
    memory.slots.push_back({b.name, b.offset, b.bytes, b.firstTask, b.lastTask, b.kind});
  OPC_RETURN_IF_ERROR(addKernels(bytes, registry, &info));
  return info;
}

} // namespace opc::cli
