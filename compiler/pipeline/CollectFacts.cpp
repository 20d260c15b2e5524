// A module and what was planned for it -> the facts of the graph.
// SPDX-License-Identifier: Apache-2.0
#include "CollectFacts.h"
#include "AttrBridge.h"
#include "DiagnosticHandler.h"
#include "Graph.h"
#include "Locations.h"
#include "OpcDialect.h"
#include "PlanEmitter.h"

using namespace mlir;

namespace opc {
namespace {

GraphTensor tensorFact(const std::string &name, Value v) {
  GraphTensor t;
  t.name = name;
  t.tensor = ir::tensorName(v);
  user_op::TensorDesc desc;
  if (ir::describe(v.getType(), &desc)) {
    t.dtype = desc.data_type();
    t.shape = desc.shape();
  }
  return t;
}

GraphOp opFact(ir::UserOp op) {
  GraphOp g;
  user_op::OpConf conf = ir::toOpConf(op);
  g.name = conf.name;
  g.type = conf.type;
  for (const auto &b : conf.inputs)
    for (size_t i = 0; i < b.tensors.size(); ++i) g.inputs.push_back({b.name + "_" + std::to_string(i), b.tensors[i]});
  unsigned next = 0;
  for (const auto &b : conf.outputs)
    for (size_t i = 0; i < b.tensors.size(); ++i)
      g.outputs.push_back(tensorFact(b.name + "_" + std::to_string(i), op.getOuts()[next++]));
  g.attrs = std::move(conf.attrs);
  const ir::OpLocation l = ir::readLocation(op.getLoc());
  g.range = rangeOf(l);
  g.loc = l.pythonLoc;
  return g;
}

const char *kindName(BufferKind kind) {
  switch (kind) {
  case BufferKind::kInput: return "input";
  case BufferKind::kVariable: return "variable";
  case BufferKind::kConstant: return "constant";
  case BufferKind::kWorkspace: return "workspace";
  case BufferKind::kActivation: break;
  }
  return "activation";
}

} // namespace

void collectGraph(ModuleOp module, GraphFacts *facts) {
  for (Operation &op : graphBlock(module)) {
    if (auto in = dyn_cast<ir::InputOp>(&op)) {
      facts->inputs.push_back(tensorFact(in.getName().str(), in.getOut()));
    } else if (auto var = dyn_cast<ir::VariableOp>(&op)) {
      facts->variables.push_back(tensorFact(var.getName().str(), var.getOut()));
      facts->variables.back().trainable = var.getTrainable();
    } else if (auto out = dyn_cast<ir::OutputOp>(&op)) {
      facts->outputs.push_back(tensorFact(out.getName().str(), out.getIn()));
    } else if (auto user = dyn_cast<ir::UserOp>(&op)) {
      facts->isDifferentiated |= user.getRole() == ir::Role::kBackward;
      facts->ops.push_back(opFact(user));
    }
  }
}

void collectExecution(const ExecutionSchedule &execution, GraphFacts *facts) {
  for (const ScheduledTask &task : execution.tasks)
    facts->tasks.push_back({ir::opName(task.op), kernelName(task), task.stream});
  MemoryFacts &memory = facts->memory;
  memory.arenaBytes = execution.memory.arenaBytes;
  memory.persistentBytes = execution.memory.persistentBytes;
  memory.activationBytes = execution.memory.arenaBytes - execution.memory.persistentBytes;
  memory.liveLowerBound = execution.memory.liveLowerBound;
  for (const ScheduledBuffer &b : execution.buffers)
    memory.slots.push_back({b.name, b.plan.offset, b.plan.bytes, b.plan.first, b.plan.last, kindName(b.kind)});
}

} // namespace opc
