// A module and what was planned for it -> the facts of the graph.
// SPDX-License-Identifier: Apache-2.0
#include "CollectFacts.h"
#include "AttrBridge.h"
#include "BuiltIn.h"
#include "ConstantVariables.h"
#include "DeviceCode.h"
#include "DiagnosticHandler.h"
#include "Graph.h"
#include "GraphEmitter.h"
#include "Locations.h"
#include "OpCost.h"
#include "OpcDialect.h"
#include "PlanEmitter.h"
#include "PluginOpeners.h"
#include "RegionBridge.h"
#include "RowStages.h"

#include <set>

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

/// Of an op's output.
GraphTensor outputFact(GraphSlot slot, Value v) {
  GraphTensor t = tensorFact(slot.text(), v);
  t.slot = std::move(slot);
  return t;
}

/// Of an op at the border of the graph.
GraphTensor portFact(Operation *op, const std::string &name, Value v) {
  GraphTensor t = tensorFact(name, v);
  t.range = rangeOf(ir::readLocation(op->getLoc()));
  return t;
}

std::string initializerText(ir::VariableOp op) {
  std::string text;
  llvm::raw_string_ostream out(text);
  if (auto initializer = op.getInitializerAttr())
    out << initializer.getKind().getValue() << " " << initializer.getFields();
  if (op.getSeed()) out << (text.empty() ? "" : " ") << "seed " << *op.getSeed();
  return text;
}

bool isResolved(const user_op::TensorDesc &desc) {
  if (desc.data_type() == kInvalidDataType) return false;
  for (int64_t i = 0; i < desc.shape().NumAxes(); ++i)
    if (desc.shape().At(i) < 0) return false;
  return true;
}

/// Where an op stands and what for.
void addPlace(Operation *op, GraphOp *g) {
  const ir::OpLocation l = ir::readLocation(op->getLoc());
  g->range = rangeOf(l);
  g->loc = l.pythonLoc;
  g->role = ir::stringifyRole(ir::roleOf(op)).str();
  if (auto of = op->getAttrOfType<StringAttr>(ir::kGradientOfAttr)) g->gradientOf = of.str();
  if (auto names = op->getAttrOfType<ArrayAttr>(ir::kCtrlInAttr))
    for (auto name : names.getAsRange<StringAttr>()) g->after.push_back(name.str());
}

GraphOp opFact(ir::UserOp op) {
  GraphOp g;
  user_op::OpConf conf = ir::toOpConf(op);
  g.name = conf.name;
  g.type = conf.type;
  for (const auto &b : conf.inputs)
    for (size_t i = 0; i < b.tensors.size(); ++i) g.inputs.push_back({{b.name, static_cast<int32_t>(i)}, b.tensors[i]});
  unsigned next = 0;
  for (const auto &b : conf.outputs)
    for (size_t i = 0; i < b.tensors.size(); ++i)
      g.outputs.push_back(outputFact({b.name, static_cast<int32_t>(i)}, op.getOuts()[next++]));
  g.attrs = std::move(conf.attrs);
  addPlace(op, &g);
  if (auto device = op.getDeviceAttr())
    g.device = device.getKind().getValue().str() + ":" + std::to_string(device.getIndex());
  return g;
}

/// Null of a constant that opc makes none of: IR may hold it.
DenseElementsAttr knownValue(ir::ConstantOp op) {
  auto value = dyn_cast<DenseElementsAttr>(op.getValue());
  const bool isKnown =
      value && value.getType() == op.getOut().getType() && ir::dataType(value.getElementType()) != kInvalidDataType;
  return isKnown ? value : DenseElementsAttr();
}

GraphOp constantFact(ir::ConstantOp op, DenseElementsAttr value, const Registry &registry,
                     std::map<std::string, StoredTensor> *values) {
  GraphOp g;
  g.name = ir::opName(op);
  g.type = "constant";
  g.isValue = true;
  g.outputs.push_back(outputFact({"out", 0}, op.getOut()));
  addPlace(op, &g);
  if (!fitsGraphFile(value)) {
    g.attrs.emplace("dtype", AttrValue(g.outputs[0].dtype));
    g.attrs.emplace("shape", AttrValue(g.outputs[0].shape));
    values->insert_or_assign(g.name, storedValue(op));
    return g;
  }
  user_op::OpConf conf;
  conf.name = g.name;
  conf.type = g.type;
  conf.attrs = constantAttributes(op);
  // As the importer of a file does it: with what the file leaves out.
  if (const user_op::OpDef *def = registry.findOp(g.type)) (void)completeOpConf(*def, &conf);
  g.attrs = std::move(conf.attrs);
  return g;
}

const char *kindName(BufferKind kind) {
  switch (kind) {
  case BufferKind::kInput: return "input";
  case BufferKind::kVariable: return "variable";
  case BufferKind::kConstant: return "constant";
  case BufferKind::kWorkspace: return "workspace";
  case BufferKind::kPrepared: return "prepared";
  case BufferKind::kActivation: break;
  }
  return "activation";
}

} // namespace

void collectGraph(ModuleOp module, GraphFacts *facts) {
  for (Operation &op : graphBlock(module)) {
    if (auto in = dyn_cast<ir::InputOp>(&op)) {
      facts->inputs.push_back(portFact(&op, in.getName().str(), in.getOut()));
    } else if (auto var = dyn_cast<ir::VariableOp>(&op)) {
      facts->variables.push_back(portFact(&op, var.getName().str(), var.getOut()));
      facts->variables.back().trainable = var.getTrainable();
      facts->variables.back().initializer = initializerText(var);
    } else if (auto out = dyn_cast<ir::OutputOp>(&op)) {
      facts->outputs.push_back(portFact(&op, out.getName().str(), out.getIn()));
    }
  }
  ir::forEachUserOp(graphBlock(module), [&](ir::UserOp op) {
    facts->isDifferentiated |= op.getRole() == ir::Role::kBackward;
    facts->ops.push_back(opFact(op));
  });
}

void collectConstants(ModuleOp module, const Registry &registry, bool costs, GraphFacts *facts,
                      std::map<std::string, StoredTensor> *values) {
  std::vector<GraphOp> all;
  size_t next = 0;
  const auto take = [&](Operation &op) {
    if (isa<ir::UserOp>(&op)) all.push_back(std::move(facts->ops[next++]));
    auto constant = dyn_cast<ir::ConstantOp>(&op);
    const DenseElementsAttr value = constant ? knownValue(constant) : DenseElementsAttr();
    if (!value) return;
    all.push_back(constantFact(constant, value, registry, values));
    if (!costs || !fitsGraphFile(value)) return; // what a file has as a variable costs nothing
    all.back().bytes = static_cast<double>(ir::bytesOf(constant.getOut()));
    facts->costs.bytes += all.back().bytes;
  };
  for (Operation &op : graphBlock(module)) {
    take(op);
    if (auto fused = dyn_cast<ir::FusedOp>(&op))
      for (Operation &inner : fused.getBody().front()) take(inner);
  }
  facts->ops = std::move(all);
}

void collectCosts(ModuleOp module, GraphFacts *facts) {
  size_t next = 0;
  ir::forEachUserOp(graphBlock(module), [&](ir::UserOp op) {
    GraphOp &fact = facts->ops[next++];
    const user_op::OpDef *def = op.def();
    if (!def) return;
    const std::unique_ptr<OpInstance> instance = ir::toInstance(op, *def);
    if (!instance || !llvm::all_of(instance->inputDescs(), isResolved) ||
        !llvm::all_of(instance->outputDescs(), isResolved))
      return;
    const OpCost cost = costOf(*instance);
    fact.flops = cost.flops;
    fact.bytes = cost.bytes;
  });
}

std::map<std::string, Shape> piecesOf(ModuleOp part) {
  std::map<std::string, Shape> pieces;
  for (ir::UserOp op : graphBlock(part).getOps<ir::UserOp>())
    for (Value out : op.getOuts()) {
      const GraphTensor t = tensorFact("", out);
      pieces.try_emplace(t.tensor, t.shape);
    }
  return pieces;
}

void sumCosts(GraphFacts *facts) {
  CostFacts &sum = facts->costs;
  for (const GraphOp &op : facts->ops) {
    sum.flops += op.flops;
    sum.bytes += op.bytes;
  }
  for (const MeshFacts::Transition &t : facts->mesh.transitions) sum.commBytes += t.bytes;
  for (const PartFacts &part : facts->parts) {
    sum.peakBytes = std::max(sum.peakBytes, part.arenaBytes);
    sum.persistentBytes = std::max(sum.persistentBytes, part.persistentBytes);
    sum.tasks += part.tasks;
  }
}

void collectTasks(const ExecutionSchedule &execution, GraphFacts *facts) {
  for (const ScheduledTask &task : execution.tasks) {
    auto add = [&](const std::string &op, std::string kernel, const user_op::KernelDef *def) {
      facts->tasks.push_back({op, std::move(kernel), task.stream, "", 0});
      if (!def) return;
      if (!isBuiltIn(def->origin)) facts->tasks.back().library = libraryName(def->origin.library);
      facts->tasks.back().priority = def->priority;
    };
    // One task, and each of its ops is computed by its own kernel's loop.
    auto addSteps = [&](const auto &steps, const auto &nameOf) {
      for (const auto &step : steps) {
        add(step.op.conf().name, nameOf(step), step.kernel);
        facts->tasks.back().region = facts->regions;
      }
      ++facts->regions;
    };
    if (task.region)
      addSteps(task.region->steps, [&](const RegionStep &step) { return kernelName(execution, step); });
    else if (task.batch)
      addSteps(task.batch->steps, [](const BatchStep &step) { return kernelName(step.op.def(), *step.kernel); });
    else
      add(ir::opName(task.op), kernelName(execution, task), task.kernel);
  }
}

/// Updates of variables that are one task stand with the regions: they save no traffic, but tasks.
static void addBatches(const ExecutionSchedule &execution, FusionFacts *facts) {
  std::set<std::string> batched;
  for (const ScheduledTask &task : execution.tasks) {
    if (!task.batch) continue;
    FusionFacts::Region fact;
    for (const BatchStep &step : task.batch->steps) {
      fact.ops.push_back(step.op.conf().name);
      fact.bytesMoved += costOf(step.op).bytes;
      batched.insert(step.op.conf().name);
    }
    fact.withoutCode = "updates are computed by their kernels";
    facts->regions.push_back(std::move(fact));
  }
  llvm::erase_if(facts->alone, [&](const FusionFacts::Alone &op) { return batched.count(op.op) != 0; });
}

void addRegionCode(const ExecutionSchedule &execution, FusionFacts *facts) {
  const std::shared_ptr<RegionCompiler> compiler = regionCompiler();
  std::map<std::string, std::string> reasons; // by a region's first op
  for (const ScheduledTask &task : execution.tasks) {
    if (!task.region) continue;
    std::string &reason = reasons[task.region->steps[0].op.conf().name];
    if (!compiler) {
      reason = "this opc makes no machine code here";
      continue;
    }
    if (isOnDevice(execution)) {
      const auto forDevice = deviceCompiler();
      if (forDevice) forDevice->compileForDevice(*task.region, &reason);
      continue;
    }
    const auto parts = codeParts(task.region);
    if (parts.empty()) reason = "its ops go by rows";
    for (const auto &part : parts)
      if (std::string why; !compiler->compile(*part, &why) && reason.empty()) reason = why;
  }
  for (FusionFacts::Region &r : facts->regions) r.withoutCode = reasons[r.ops[0]];
  addBatches(execution, facts);
}

/// Memory of the graphs in ops, beside the arena.
static uint64_t graphBytes(const ExecutionSchedule &execution) {
  uint64_t bytes = 0;
  for (const ScheduledTask &task : execution.tasks) bytes += task.graphBytes;
  return bytes;
}

PartFacts partFact(const ExecutionSchedule &execution) {
  const uint64_t graphs = graphBytes(execution);
  return {{}, execution.memory.arenaBytes + graphs, execution.memory.persistentBytes + graphs, execution.tasks.size()};
}

MemoryFacts memoryFacts(const ExecutionSchedule &execution) {
  MemoryFacts memory;
  memory.arenaBytes = execution.memory.arenaBytes + graphBytes(execution);
  memory.persistentBytes = execution.memory.persistentBytes + graphBytes(execution);
  memory.activationBytes = execution.memory.arenaBytes - execution.memory.persistentBytes;
  memory.liveLowerBound = execution.memory.liveLowerBound;
  for (const ScheduledBuffer &b : execution.buffers)
    if (b.arena == BufferArena::kDevice)
      memory.slots.push_back({b.name, b.plan.offset, b.plan.bytes, b.plan.first, b.plan.last, kindName(b.kind)});
  uint64_t at = execution.memory.arenaBytes;
  for (const auto [index, task] : llvm::enumerate(execution.tasks))
    if (task.graphBytes) {
      const auto when = static_cast<uint32_t>(index);
      memory.slots.push_back({ir::opName(task.op), at, task.graphBytes, when, when, "graph"});
      at += task.graphBytes;
    }
  return memory;
}

} // namespace opc
