// What an observer of a run is shown: the tasks as data, and their tensors' bytes in host memory.
// SPDX-License-Identifier: Apache-2.0
#include "ControlOp.h"
#include "ControlTask.h"
#include "TaskGraph.h"

#include <algorithm>
#include <utility>

namespace opc::runtime {
namespace {

ObservedTensor::Source sourceOf(plan::Register::Kind kind) {
  switch (kind) {
  case plan::Register::INPUT: return ObservedTensor::Source::kInput;
  case plan::Register::VARIABLE: return ObservedTensor::Source::kVariable;
  case plan::Register::CONSTANT: return ObservedTensor::Source::kConstant;
  default: return ObservedTensor::Source::kTask;
  }
}

} // namespace

/// The tensors of one task at one step. Memory that the host cannot follow is copied on demand.
class TaskGraph::DataView final : public TaskData {
public:
  DataView(TaskGraph &graph, const ModelTask &task, int64_t step) : graph_(graph), task_(task), step_(step) {}
  Result<const void *> input(size_t i) override { return bytes(task_.inputs.at(i)); }
  Result<const void *> output(size_t i) override { return bytes(task_.outputs.at(i)); }
  Status replaceInput(size_t i, const void *bytes) override { return graph_.copyIn(task_.inputs.at(i), bytes, step_); }

private:
  Result<const void *> bytes(uint32_t tensor) {
    const ModelTensor &t = graph_.model_.tensors[tensor];
    if (graph_.arenas().device(graph_.model_.registers[t.reg].arena).isHostMemory())
      return static_cast<const void *>(graph_.data(tensor, step_));
    copies_.emplace_back(t.bytes);
    OPC_RETURN_IF_ERROR(graph_.copyOut(tensor, step_, copies_.back().data()));
    return static_cast<const void *>(copies_.back().data());
  }

  TaskGraph &graph_;
  const ModelTask &task_;
  int64_t step_;
  std::deque<std::vector<char>> copies_;
};

void TaskGraph::observe(RunObserver *observer) {
  observer_ = observer;
  showsPrepared_ = true; // to this one
  if (observer) observedTasks();
}

void TaskGraph::timeGraphs(uint32_t task) {
  for (KernelTask *kernel : variants_[task])
    if (auto *graphs = dynamic_cast<TimedGraphs *>(kernel->bound())) graphs->keepTimes();
}

std::vector<InnerTime> TaskGraph::innerTimes(uint32_t task) {
  std::vector<InnerTime> all;
  for (KernelTask *kernel : variants_[task])
    if (auto *graphs = dynamic_cast<TimedGraphs *>(kernel->bound()))
      for (const InnerTime &t : graphs->takeTimes()) all.push_back(t); // of the variant that has run
  return all;
}

std::vector<ObservedTask> describeTasks(const PlanModel &model,
                                        const std::function<const OpInstance &(uint32_t)> &instance) {
  std::vector<ObservedTask> tasks;
  for (uint32_t i = 0; i < model.tasks.size(); ++i) {
    const ModelTask &t = model.tasks[i];
    ObservedTask o;
    o.rank = model.rank;
    o.index = i;
    o.stream = t.stream;
    o.name = t.name;
    o.type = t.type;
    o.where = t.where;
    o.device = model.streams[t.stream].device;
    o.isView = t.isView;
    o.isPrepared = t.isPrepared;
    if (t.batch)
      for (const BatchStep &step : t.batch->steps) o.ops.push_back(step.op.def().name);
    if (t.region)
      for (const RegionStep &step : t.region->steps) o.ops.push_back(step.op.def().name);
    if (controlKind(t.type) != ControlKind::kNone)
      for (const ModelTask::Part &part : t.parts) o.ops.push_back(part.type);
    auto describe = [&](uint32_t tensor, const std::pair<std::string, int32_t> &arg) {
      const ModelTensor &m = model.tensors[tensor];
      ObservedTensor d;
      d.name = m.name;
      d.argument = arg.first;
      d.index = arg.second;
      d.desc = m.desc;
      d.source = sourceOf(model.registers[m.reg].kind);
      return d;
    };
    if (t.isBoxing()) {
      o.isTransfer = true;
      for (const BoxingOp &step : t.boxing) o.bytesSent += bytesSent(step, model.rank);
      for (size_t k = 0; k < t.inputs.size(); ++k)
        o.inputs.push_back(describe(t.inputs[k], {"in", static_cast<int32_t>(k)}));
      for (size_t k = 0; k < t.outputs.size(); ++k)
        o.outputs.push_back(describe(t.outputs[k], {"out", static_cast<int32_t>(k)}));
      tasks.push_back(std::move(o));
      continue;
    }
    const OpInstance &op = instance(i);
    for (size_t k = 0; k < t.inputs.size(); ++k) {
      ObservedTensor d = describe(t.inputs[k], op.inputArgs()[k]);
      d.isMutable = t.mutableInput[k];
      d.isOverwritten = d.isMutable;
      const uint32_t reg = model.tensors[t.inputs[k]].reg;
      for (uint32_t out : t.outputs) d.isOverwritten |= !t.isView && model.tensors[out].reg == reg;
      o.inputs.push_back(std::move(d));
    }
    for (size_t k = 0; k < t.outputs.size(); ++k) o.outputs.push_back(describe(t.outputs[k], op.outputArgs()[k]));
    tasks.push_back(std::move(o));
  }
  return tasks;
}

const std::vector<ObservedTask> &TaskGraph::observedTasks() {
  if (!observed_.empty()) return observed_;
  observed_ = describeTasks(model_, [this](uint32_t task) -> const OpInstance & { return instance(task); });
  // Views stand in a stream's order, but not among its operations: each belongs before the next task that executes.
  for (size_t s = 0; s < model_.streams.size(); ++s) {
    uint32_t operation = 0;
    for (uint32_t index : model_.streams[s].tasks) {
      if (model_.tasks[index].isView)
        lanes_[s].views.push_back({operation, index});
      else if (model_.tasks[index].isRun())
        ++operation;
    }
  }
  return observed_;
}

const OpInstance &TaskGraph::instance(uint32_t task) const {
  return model_.tasks[task].op ? *model_.tasks[task].op : variants_[task].front()->op();
}

/// Lanes are shown one after the other. Ranks wait for each other within tasks: theirs are not held up.
std::unique_lock<std::mutex> TaskGraph::alone() {
  return isBoxing_ ? std::unique_lock<std::mutex>() : std::unique_lock(observing_);
}

/// What ran once since it was last shown.
Status TaskGraph::showPrepared() {
  if (!observer_ || !std::exchange(showsPrepared_, false) || !observer_->wantsPrepared()) return Status::ok();
  for (const PlanModel::Stream &stream : model_.streams)
    for (uint32_t index : stream.tasks) {
      const ModelTask &task = model_.tasks[index];
      const auto isGone = [&](uint32_t t) { return isReleased(model_.tensors[t].reg); };
      if (!task.isPrepared || std::any_of(task.inputs.begin(), task.inputs.end(), isGone) ||
          std::any_of(task.outputs.begin(), task.outputs.end(), isGone))
        continue;
      DataView data(*this, task, step_);
      OPC_RETURN_IF_ERROR(observer_->before(observed_[index], step_, data));
      OPC_RETURN_IF_ERROR(observer_->after(observed_[index], step_, data));
    }
  return Status::ok();
}

Status TaskGraph::observeViews(const Lane &lane, size_t *next, uint32_t operation, int64_t step) {
  if (!observer_) return Status::ok();
  const auto lock = alone();
  for (; *next < lane.views.size() && lane.views[*next].first <= operation; ++*next) {
    const uint32_t task = lane.views[*next].second;
    OPC_RETURN_IF_ERROR(lane.stream->synchronize());
    DataView data(*this, model_.tasks[task], step);
    if (Status s = observer_->after(observed_[task], step, data); !s.isOk()) return s;
  }
  return Status::ok();
}

Status TaskGraph::runObserved(Lane &lane, const Operation &op, int64_t step) {
  const auto lock = alone();
  DataView data(*this, model_.tasks[op.task], step);
  OPC_RETURN_IF_ERROR(lane.stream->synchronize());
  if (observer_) OPC_RETURN_IF_ERROR(observer_->before(observed_[op.task], step, data));
  const bool isTimed =
      observer_ && observer_->wantsInnerTimes() && controlKind(model_.tasks[op.task].type) != ControlKind::kNone;
  if (isTimed) timeGraphs(op.task);
  Status s = execute(lane, op, step);
  if (s.isOk()) s = waitFor(lane);
  if (!s.isOk()) return failed(std::move(s), op.task);
  if (isTimed) observer_->inner(observed_[op.task], step, innerTimes(op.task));
  if (observer_) OPC_RETURN_IF_ERROR(observer_->after(observed_[op.task], step, data));
  return poison_ ? poison_->fillAfter(op.task, model_, arenas(), *lane.stream, step) : Status::ok();
}

} // namespace opc::runtime
