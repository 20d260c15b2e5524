// What a plan file says.
// SPDX-License-Identifier: Apache-2.0
#include "PlanDescription.h"

#include "NativeImages.h"
#include "PlanFile.h"
#include "PlanSizes.h"
#include "PrintableText.h"
#include "TaskGraph.h"

#include <algorithm>

namespace opc {

using runtime::ModelTask;
using runtime::PlanModel;

namespace {

const char *kindName(plan::Register::Kind kind) {
  switch (kind) {
  case plan::Register::INPUT: return "input";
  case plan::Register::VARIABLE: return "variable";
  case plan::Register::CONSTANT: return "constant";
  case plan::Register::WORKSPACE: return "workspace";
  case plan::Register::PREPARED: return "prepared";
  default: return "activation";
  }
}

/// Buffers with the first and the last task that touches each; what the caller fetches lives to the end.
std::vector<PlanDescription::Buffer> buffersOf(const PlanModel &model) {
  const uint32_t tasks = static_cast<uint32_t>(model.tasks.size());
  std::vector<PlanDescription::Buffer> buffers;
  for (const runtime::ModelRegister &r : model.registers)
    buffers.push_back({r.name, kindName(r.kind), r.offset, r.end() - r.offset, r.isPersistent() ? 0 : UINT32_MAX,
                       r.isPersistent() ? tasks : 0});
  auto touch = [&](uint32_t tensor, uint32_t task) {
    PlanDescription::Buffer &b = buffers[model.tensors[tensor].reg];
    b.firstTask = std::min(b.firstTask, task);
    b.lastTask = std::max(b.lastTask, task);
  };
  for (uint32_t i = 0; i < tasks; ++i) {
    const ModelTask &t = model.tasks[i];
    for (uint32_t in : t.inputs) touch(in, i);
    for (uint32_t out : t.outputs) touch(out, i);
    if (t.workspace != runtime::kNone) touch(t.workspace, i);
  }
  for (const runtime::ModelPort &p : model.outputs) touch(p.tensor, tasks);
  for (PlanDescription::Buffer &b : buffers) b.firstTask = std::min(b.firstTask, b.lastTask);
  return buffers;
}

/// Adds the op of a task, or those of its region or batch, which have the task's index.
void addOps(const ModelTask &task, ObservedTask seen, PlanDescription *d) {
  auto addAttrs = [&](const OpInstance &op) { d->attrs.emplace_back(op.conf().attrs.begin(), op.conf().attrs.end()); };
  if (!task.region && !task.batch) {
    d->tasks.push_back(std::move(seen));
    task.op ? addAttrs(*task.op) : static_cast<void>(d->attrs.emplace_back());
    return;
  }
  const std::vector<ObservedTensor> inputs = std::move(seen.inputs);
  seen.inputs.clear();
  seen.outputs.clear();
  seen.ops.clear();
  auto tensors = [&inputs](const std::vector<user_op::ArgBinding> &arguments,
                           const std::vector<user_op::TensorDesc> &descs, std::vector<ObservedTensor> *to) {
    for (const user_op::ArgBinding &a : arguments)
      for (size_t i = 0; i < a.tensors.size(); ++i) {
        ObservedTensor t;
        t.name = a.tensors[i];
        t.argument = a.name;
        t.index = static_cast<int32_t>(i);
        t.desc = descs[to->size()];
        for (const ObservedTensor &in : inputs)
          if (in.name == t.name) t.source = in.source, t.isMutable = in.isMutable, t.isOverwritten = in.isMutable;
        to->push_back(std::move(t));
      }
  };
  auto addStep = [&](const auto &step) {
    ObservedTask op = seen;
    op.name = step.op.conf().name;
    op.type = step.op.conf().type;
    tensors(step.op.conf().inputs, step.op.inputDescs(), &op.inputs);
    tensors(step.op.conf().outputs, step.op.outputDescs(), &op.outputs);
    d->tasks.push_back(std::move(op));
    addAttrs(step.op);
  };
  if (task.region)
    for (const RegionStep &step : task.region->steps) addStep(step);
  else
    for (const BatchStep &step : task.batch->steps) addStep(step);
}

std::vector<PlanDescription::Native> nativeOf(const plan::Plan &plan) {
  std::vector<PlanDescription::Native> list;
  for (const CodeLevel level : {CodeLevel::kV3, CodeLevel::kV4}) {
    PlanDescription::Native n{codeLevelName(level), 0, 0};
    for (const plan::NativeCode &code : plan.native())
      for (const plan::NativeCode::Image &image : code.image())
        if (runtime::levelOf(image) == level) {
          ++n.loops;
          n.bytes += image.data().size();
        }
    if (n.loops) list.push_back(std::move(n));
  }
  return list;
}

} // namespace

Result<PlanDescription> describePlan(std::string_view planBytes, const Registry &registry, int64_t rank) {
  plan::Plan plan;
  OPC_RETURN_IF_ERROR(decodePlan(planBytes, &plan));
  PlanDescription d;
  for (const plan::Size &s : plan.size()) d.sizes.push_back({printableName(s.name()), s.min(), s.max()});
  for (const plan::Tensor &t : plan.tensor())
    if (std::string text = sizeText(plan, t); !text.empty())
      d.sizesOf.emplace(printableName(t.name()), printableName(text));
  fixSizes(&plan, largestSizes(plan));
  const int64_t ranks = plan.part_size() ? plan.part_of_rank_size() : 1;
  OPC_ASSIGN_OR_RETURN(runtime::JobPlan job, runtime::readJob(plan, ranks));
  if (rank < 0 || rank >= ranks)
    return Status(StatusCode::kUsage, "OPC0714",
                  "the plan is for ranks 0 to " + std::to_string(ranks - 1) + ", not for rank " + std::to_string(rank));
  OPC_ASSIGN_OR_RETURN(const PlanModel model,
                       runtime::buildPlanModel(runtime::partOf(plan, job, rank), registry, job, rank));
  if (Result<std::vector<runtime::CrossEdge>> edges = runtime::checkDataFlow(model); !edges) return edges.status();
  d.producer = printableName(plan.producer());
  d.graph = printableName(plan.graph());
  d.ranks = ranks;
  const auto describe = [&](const std::vector<runtime::ModelPort> &ports, std::vector<PortInfo> *to) {
    for (const runtime::ModelPort &p : ports) {
      const runtime::ModelTensor &t = model.tensors[p.tensor];
      const auto sizes = d.sizesOf.find(t.name);
      PortInfo &port = to->emplace_back(PortInfo{p.name, t.desc, sizes == d.sizesOf.end() ? "" : sizes->second});
      port.tensor = t.name, port.trainable = p.trainable;
    }
  };
  describe(model.inputs, &d.inputs);
  describe(model.outputs, &d.outputs);
  describe(model.variables, &d.variables);
  std::vector<ObservedTask> seen =
      runtime::describeTasks(model, [&](uint32_t i) -> const OpInstance & { return *model.tasks[i].op; });
  for (size_t i = 0; i < model.tasks.size(); ++i) addOps(model.tasks[i], std::move(seen[i]), &d);
  if (!model.arenas.empty()) d.arenaBytes = model.arenas[0].second; // of the device that the plan is for
  d.arenaBytes += model.graphBytes();
  d.persistentBytes += model.graphBytes();
  d.buffers = buffersOf(model);
  d.native = nativeOf(plan);
  std::vector<int64_t> change(model.tasks.size() + 2);
  for (size_t r = 0; r < d.buffers.size(); ++r) {
    const PlanDescription::Buffer &b = d.buffers[r];
    if (model.registers[r].arena != 0) continue;
    if (model.registers[r].isPersistent()) {
      d.persistentBytes += b.bytes;
      continue;
    }
    change[b.firstTask] += static_cast<int64_t>(b.bytes);
    change[b.lastTask + 1] -= static_cast<int64_t>(b.bytes);
  }
  int64_t live = 0;
  for (size_t task = 0; task <= model.tasks.size(); ++task)
    d.live.push_back(static_cast<uint64_t>(live += change[task]));
  uint64_t at = d.arenaBytes - model.graphBytes();
  for (uint32_t i = 0; i < model.tasks.size(); ++i)
    if (const ModelTask &t = model.tasks[i]; t.graphBytes) {
      d.buffers.push_back({printableName(t.name), "graph", at, t.graphBytes, i, i});
      at += t.graphBytes;
    }
  for (size_t r = model.registers.size(); r-- > 0;)
    if (model.registers[r].arena != 0) d.buffers.erase(d.buffers.begin() + static_cast<std::ptrdiff_t>(r));
  d.liveLowerBound = *std::max_element(d.live.begin(), d.live.end());
  return d;
}

} // namespace opc
