// Tasks whose work is graphs of their own: each graph has memory and tasks of its own, and reads the task's inputs
// where they lie.
// SPDX-License-Identifier: Apache-2.0
#include "ControlTask.h"

#include "ControlOp.h"
#include "LateInputs.h"
#include "PlanReading.h"
#include "TaskGraph.h"

#include "opc/PackedInputs.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

namespace opc::runtime {
namespace {

using user_op::KernelBindContext;

/// The attribute of a `batch_parts` that says how many parts there are.
constexpr char kPartsAttr[] = "parts";

int64_t graphsOfParts(int64_t parts, int threads) {
  const int64_t count = std::max(threads, 1), idle = (count - parts % count) % count; // in the last turn
  return 3 * idle <= parts ? count : 1;
}

/// The step of a task's graph in turn or part `number` of a step of the task: another one for each of them, so that
/// what is drawn in one is not drawn in another.
int64_t stepWithin(int64_t step, int64_t number) {
  constexpr int64_t kNumbers = int64_t{1} << 24;
  if (step < kNumbers << 15 && number < kNumbers) return step * kNumbers + number;
  // No room for both, as in a loop in a loop in a loop: mixed by SplitMix64's finaliser, two meet by chance alone.
  uint64_t z = static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(number);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<int64_t>((z ^ (z >> 31)) >> 1);
}

/// The times of a graph's tasks. They run one after the other: TaskGraph::alone() sees to it.
class GraphClock final : public RunObserver {
public:
  Status before(const ObservedTask &, int64_t, TaskData &) override {
    start_ = Clock::now();
    return Status::ok();
  }
  Status after(const ObservedTask &task, int64_t, TaskData &) override {
    if (task.isView) return Status::ok();
    if (times_.size() <= task.index) times_.resize(task.index + 1);
    times_[task.index].seconds += std::chrono::duration<double>(Clock::now() - start_).count();
    ++times_[task.index].runs;
    return Status::ok();
  }
  /// Adds what has been taken since the last call to `all`; `share`: of the clock, where other graphs run beside.
  void take(uint32_t graph, double share, std::vector<InnerTime> *all) {
    for (uint32_t index = 0; index < times_.size(); ++index) {
      InnerTime &t = times_[index];
      if (t.runs == 0) continue;
      const auto known = std::find_if(all->begin(), all->end(),
                                      [&](const InnerTime &o) { return o.graph == graph && o.index == index; });
      InnerTime &sum = known == all->end() ? all->emplace_back(InnerTime{graph, index, 0, 0}) : *known;
      sum.runs += t.runs, sum.seconds += t.seconds * share;
      t = {};
    }
  }

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  std::vector<InnerTime> times_;
};

/// One graph of a task. The first binding takes its memory.
class ControlGraph {
public:
  ControlGraph(PlanModel model, std::vector<CrossEdge> edges, const plan::Plan &plan)
      : model_(std::move(model)), edges_(std::move(edges)) {
    for (const ModelPort &p : model_.inputs) inputs_.push_back(p.tensor);
    for (const ModelPort &p : model_.outputs) outputs_.push_back(p.tensor);
    for (const plan::Interface::Constant &c : plan.interface().constant()) constants_.push_back(c.data());
  }

  /// Another one of the same plan, with memory of its own, that is bound once. Before bind().
  std::unique_ptr<ControlGraph> another() const {
    auto twin = std::make_unique<ControlGraph>(model_, edges_, plan::Plan());
    twin->constants_ = constants_;
    twin->isBoundOnce_ = true;
    return twin;
  }

  /// The inputs from `first` on, which never change, are asked for when a kernel reads them. Before bind().
  void takeLate(LateInputs *late, size_t first, const std::vector<bool> &constant) {
    late_ = late, firstLate_ = first, isLate_ = constant;
  }

  /// Whether the kernels have packed an input, and do not read it again.
  bool hasPacked(size_t i) const { return graph_->isReleased(graph_->model().tensors[inputs_[i]].reg); }

  /// Ties the graph to what lies at `inputs`; null: memory of its own, data(i). `constant` ones never change. The first
  /// time says how many threads its kernels have.
  Status bind(const std::vector<const void *> &inputs, const std::vector<bool> &constant, int threads) {
    const bool isNew = !graph_;
    if (isNew) OPC_RETURN_IF_ERROR(take(constant, threads));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      if (!graph_->lend(inputs_[i], inputs[i]))
        return Status(StatusCode::kInternal, "OPC0901", "a graph of a task cannot read the task's memory");
      if (constant[i]) graph_->markChanged(graph_->model().tensors[inputs_[i]].reg); // perhaps another value there
    }
    if (isBoundOnce_) graph_->releasePacked(); // then it is known what is not read again
    if (isNew && late_) askLate();
    Status bound = graph_->isBound() ? graph_->refresh() : graph_->bind();
    graph_->tellPacked({});
    (void)user_op::takePackedInputs(); // of the graph's inputs: others of its tasks may read them as they are
    return bound;
  }

  TaskGraph &graph() { return *graph_; }
  void keepTimes() {
    if (clock_) return;
    clock_ = std::make_unique<GraphClock>();
    graph_->observe(clock_.get());
  }
  void takeTimes(uint32_t number, double share, std::vector<InnerTime> *all) {
    if (clock_) clock_->take(number, share, all);
  }
  void *input(size_t i) const { return graph_->data(inputs_[i]); }
  const void *output(size_t i) const { return graph_->data(outputs_[i]); }
  uint64_t inputBytes(size_t i) const { return graph_->model().tensors[inputs_[i]].bytes; }
  uint64_t outputBytes(size_t i) const { return graph_->model().tensors[outputs_[i]].bytes; }

private:
  Status take(const std::vector<bool> &constant, int threads) {
    OPC_ASSIGN_OR_RETURN(graph_, TaskGraph::create(std::move(model_), std::move(edges_), threads));
    graph_->leaveNanToOthers();
    for (size_t i = 0; i < constant.size(); ++i)
      if (constant[i]) graph_->holdConstant(inputs_[i]);
    const auto &constants = graph_->model().constants;
    for (size_t i = 0; i < constants.size(); ++i) {
      if (graph_->model().tensors[constants[i].tensor].desc.data_type() == kBool)
        for (char &c : constants_[i]) c = c != 0; // another value would be undefined behaviour in a kernel
      OPC_RETURN_IF_ERROR(graph_->copyIn(constants[i].tensor, constants_[i].data()));
    }
    constants_.clear();
    return Status::ok();
  }

  void askLate() {
    for (size_t k = firstLate_; k < inputs_.size(); ++k)
      if (isLate_[k]) graph_->fillLater(inputs_[k], [late = late_, k](void *) { return late->fill(k); });
    graph_->tellPacked([this](uint32_t tensor) {
      const auto at = std::find(inputs_.begin(), inputs_.end(), tensor);
      if (at != inputs_.end()) late_->packed(static_cast<size_t>(at - inputs_.begin()));
    });
  }

  PlanModel model_; // until there is a graph
  std::vector<CrossEdge> edges_;
  std::vector<std::string> constants_;
  std::vector<uint32_t> inputs_, outputs_; // tensors
  std::unique_ptr<GraphClock> clock_;
  std::unique_ptr<TaskGraph> graph_;
  bool isBoundOnce_ = false;
  LateInputs *late_ = nullptr; // while binding
  size_t firstLate_ = 0;
  std::vector<bool> isLate_;
};

using ControlGraphs = std::vector<std::unique_ptr<ControlGraph>>;

void copy(void *to, const void *from, uint64_t bytes) {
  if (to != from && bytes) std::memcpy(to, from, bytes);
}

/// A task's graphs, tied to its tensors.
class BoundControl : public user_op::BoundKernel, public TimedGraphs {
public:
  explicit BoundControl(KernelBindContext *ctx) {
    for (const auto &[arg, index] : ctx->inputs()) {
      in_.push_back(ctx->In(arg, index).raw_dptr());
      isConstant_.push_back(ctx->isConstant(arg, index));
    }
    for (const auto &[arg, index] : ctx->outputs()) {
      const Shape &shape = ctx->Out(arg, index).shape();
      out_.push_back(ctx->Out(arg, index).mut_raw_dptr());
      lengths_.push_back(shape.NumAxes() ? shape.At(0) : 0);
    }
  }
  virtual Status bind(ControlGraphs &graphs, DeviceCtx *ctx) = 0;
  virtual Status execute(DeviceCtx *ctx) = 0;
  void Run(DeviceCtx *) final {} // KernelDef::run calls execute(), which has a status

  void keepTimes() final {
    for (ControlGraph *g : graphs()) g->keepTimes();
  }
  std::vector<InnerTime> takeTimes() final {
    std::vector<InnerTime> all;
    const std::vector<ControlGraph *> list = graphs();
    const double share = areTwins() ? 1 / static_cast<double>(list.size()) : 1;
    for (size_t k = 0; k < list.size(); ++k) list[k]->takeTimes(areTwins() ? 0 : static_cast<uint32_t>(k), share, &all);
    return all;
  }

protected:
  virtual std::vector<ControlGraph *> graphs() = 0;
  /// Whether all are one graph of the plan, for a thread each.
  virtual bool areTwins() const { return false; }

  std::vector<const void *> in_; // of the task
  std::vector<bool> isConstant_;
  std::vector<void *> out_;
  std::vector<int64_t> lengths_; // of the outputs' first axes
};

class BoundIf final : public BoundControl {
public:
  using BoundControl::BoundControl;

  Status bind(ControlGraphs &graphs, DeviceCtx *ctx) override {
    const std::vector<const void *> captures(in_.begin() + 1, in_.end());
    const std::vector<bool> constant(isConstant_.begin() + 1, isConstant_.end());
    for (const auto &graph : graphs) {
      OPC_RETURN_IF_ERROR(graph->bind(captures, constant, ctx->threads()));
      graphs_.push_back(graph.get());
    }
    return Status::ok();
  }

  Status execute(DeviceCtx *ctx) override {
    ControlGraph &taken = *graphs_[*static_cast<const char *>(in_[0]) ? 0 : 1];
    taken.graph().setSeed(ctx->position().seed);
    if (ctx->position().step >= 0) taken.graph().setPosition(ctx->position().step);
    OPC_RETURN_IF_ERROR(taken.graph().run(1));
    for (size_t i = 0; i < out_.size(); ++i) copy(out_[i], taken.output(i), taken.outputBytes(i));
    return Status::ok();
  }

private:
  std::vector<ControlGraph *> graphs() override { return graphs_; }

  std::vector<ControlGraph *> graphs_;
};

/// States lie in the task's outputs, where the graph reads them.
class BoundLoop final : public BoundControl {
public:
  BoundLoop(KernelBindContext *ctx, const LoopParts &parts) : BoundControl(ctx), parts_(parts) {}

  Status bind(ControlGraphs &graphs, DeviceCtx *ctx) override {
    graph_ = graphs[0].get();
    std::vector<const void *> inputs{nullptr}; // the number of the turn
    std::vector<bool> constant{false};
    for (size_t k = LoopParts::kFirst; k < in_.size(); ++k) {
      const size_t at = k - LoopParts::kFirst;
      const bool isState = at < parts_.states, isSequence = !isState && at < parts_.states + parts_.sequences;
      inputs.push_back(isState ? out_[at] : isSequence ? nullptr : in_[k]);
      constant.push_back(!isState && !isSequence && isConstant_[k]);
    }
    OPC_RETURN_IF_ERROR(graph_->bind(inputs, constant, ctx->threads()));
    // A state that a turn hands on as another one must not be overwritten before that has it.
    for (size_t k = 0; k < parts_.states; ++k) {
      bool isHandedOn = false;
      for (size_t other = 0; other < parts_.states; ++other)
        isHandedOn |= other != k && graph_->output(1 + k) == out_[other];
      staged_.emplace_back(isHandedOn ? graph_->outputBytes(1 + k) : 0);
    }
    return Status::ok();
  }

  Status execute(DeviceCtx *ctx) override {
    const int64_t turns = *static_cast<const int64_t *>(in_[LoopParts::kTurns]);
    if (parts_.length >= 0 && turns > parts_.length)
      return Status(StatusCode::kExecution, "OPC0601",
                    "it is to make " + std::to_string(turns) + " turns, and its sequences and results have room for " +
                        std::to_string(parts_.length));
    for (size_t k = 0; k < parts_.states; ++k) copy(out_[k], in_[LoopParts::kFirst + k], graph_->outputBytes(1 + k));
    graph_->graph().setSeed(ctx->position().seed);
    bool goesOn = *static_cast<const char *>(in_[LoopParts::kCondition]);
    int64_t done = 0;
    for (; done < turns && goesOn; ++done) {
      const int64_t number = parts_.isReverse ? turns - 1 - done : done;
      if (Status s = turn(ctx, number, &goesOn); !s.isOk())
        return Status(s.code(), s.id(), s.message() + " (in turn " + std::to_string(number) + " of the loop)")
            .withHelp(s.help())
            .withContext(s.context());
    }
    if (parts_.isPartial) {
      clear(std::max<int64_t>(turns, 0), std::numeric_limits<int64_t>::max());
      if (done < turns) clear(parts_.isReverse ? 0 : done, parts_.isReverse ? turns - done : turns);
      return Status::ok();
    }
    if (parts_.rows && done != parts_.length)
      return Status(StatusCode::kExecution, "OPC0601",
                    "it has made " + std::to_string(done) + " turns, and its results are of " +
                        std::to_string(parts_.length));
    return Status::ok();
  }

private:
  std::vector<ControlGraph *> graphs() override { return {graph_}; }

  /// The rows from `first` up to `end` are those of no turn.
  void clear(int64_t first, int64_t end) {
    for (size_t k = 0; k < parts_.rows; ++k) {
      const uint64_t bytes = graph_->outputBytes(1 + parts_.states + k);
      const int64_t stop = std::min(end, lengths_[parts_.states + k]);
      if (first < stop && bytes)
        std::memset(static_cast<char *>(out_[parts_.states + k]) + static_cast<uint64_t>(first) * bytes, 0,
                    static_cast<uint64_t>(stop - first) * bytes);
    }
  }

  Status turn(DeviceCtx *ctx, int64_t number, bool *goesOn) {
    *static_cast<int64_t *>(graph_->input(0)) = number;
    for (size_t k = 0; k < parts_.sequences; ++k) {
      const size_t at = parts_.states + k;
      const uint64_t bytes = graph_->inputBytes(1 + at);
      copy(graph_->input(1 + at),
           static_cast<const char *>(in_[LoopParts::kFirst + at]) + static_cast<uint64_t>(number) * bytes, bytes);
    }
    if (ctx->position().step >= 0) graph_->graph().setPosition(stepWithin(ctx->position().step, number));
    OPC_RETURN_IF_ERROR(graph_->graph().run(1));
    *goesOn = *static_cast<const char *>(graph_->output(0));
    for (size_t k = 0; k < parts_.rows; ++k) {
      const uint64_t bytes = graph_->outputBytes(1 + parts_.states + k);
      copy(static_cast<char *>(out_[parts_.states + k]) + static_cast<uint64_t>(number) * bytes,
           graph_->output(1 + parts_.states + k), bytes);
    }
    for (size_t k = 0; k < parts_.states; ++k) copy(staged_[k].data(), graph_->output(1 + k), staged_[k].size());
    for (size_t k = 0; k < parts_.states; ++k)
      copy(out_[k], staged_[k].empty() ? graph_->output(1 + k) : staged_[k].data(), graph_->outputBytes(1 + k));
    return Status::ok();
  }

  const LoopParts parts_;
  ControlGraph *graph_ = nullptr;
  std::vector<std::vector<char>> staged_; // by state
};

/// Each thread has a graph of one thread and as many parts as the others; where the parts do not share out among the
/// threads, one graph has them all, and its kernels share their work. The bits are the same: kernels give them for any
/// number of threads.
class BoundParts final : public BoundControl {
public:
  BoundParts(KernelBindContext *ctx, const BatchParts &parts) : BoundControl(ctx), parts_(parts), ctx_(ctx) {}

  Status bind(ControlGraphs &graphs, DeviceCtx *ctx) override {
    const int64_t count = graphsOfParts(parts_.parts, ctx->threads());
    std::vector<const void *> inputs(in_.begin(), in_.end());
    std::vector<bool> constant = isConstant_;
    for (size_t k = 0; k < parts_.cut; ++k) inputs[k] = nullptr, constant[k] = false;
    const user_op::PackSharing sharing;
    for (int64_t t = 0; t < count; ++t) {
      graphs_.push_back(graphs[0]->another());
      // The first graph has all of it written, and what it has packed the others take from there.
      if (t == 0) graphs_[0]->takeLate(LateInputs::current(), parts_.cut, constant);
      OPC_RETURN_IF_ERROR(graphs_.back()->bind(inputs, constant, count > 1 ? 1 : ctx->threads()));
    }
    results_.resize(graphs_.size());
    for (size_t k = parts_.cut; k < in_.size(); ++k)
      if (constant[k] && graphs_[0]->hasPacked(k)) notePackedInput(ctx_, "in", static_cast<int32_t>(k));
    ctx_ = nullptr;
    return Status::ok();
  }

  Status execute(DeviceCtx *ctx) override {
    const auto count = static_cast<int64_t>(graphs_.size());
    const auto share = [&](int64_t g) { results_[static_cast<size_t>(g)] = runShare(ctx, g, count); };
    if (count == 1)
      share(0);
    else
      ctx->parallelFor(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; ++g) share(g);
      });
    for (const Status &s : results_) OPC_RETURN_IF_ERROR(s);
    return Status::ok();
  }

private:
  std::vector<ControlGraph *> graphs() override {
    std::vector<ControlGraph *> list;
    for (const auto &g : graphs_) list.push_back(g.get());
    return list;
  }
  bool areTwins() const override { return true; }

  /// The parts of one graph.
  Status runShare(DeviceCtx *ctx, int64_t g, int64_t count) {
    ControlGraph &graph = *graphs_[static_cast<size_t>(g)];
    graph.graph().setSeed(ctx->position().seed);
    for (int64_t part = parts_.parts * g / count; part < parts_.parts * (g + 1) / count; ++part) {
      const auto at = static_cast<uint64_t>(part);
      for (size_t k = 0; k < parts_.cut; ++k) {
        const uint64_t bytes = graph.inputBytes(k);
        copy(graph.input(k), static_cast<const char *>(in_[k]) + at * bytes, bytes);
      }
      // Whichever thread has the part.
      if (ctx->position().step >= 0) graph.graph().setPosition(stepWithin(ctx->position().step, part));
      if (Status s = graph.graph().run(1); !s.isOk()) {
        const int64_t samples = lengths_[0] / parts_.parts; // places in the message are those of the part
        return Status(s.code(), s.id(),
                      s.message() + " (in part " + std::to_string(part + 1) + " of " + std::to_string(parts_.parts) +
                          " of the batch, which begins with sample " + std::to_string(part * samples) + ")")
            .withHelp(s.help())
            .withContext(s.context());
      }
      for (size_t k = 0; k < out_.size(); ++k) {
        const uint64_t bytes = graph.outputBytes(k);
        copy(static_cast<char *>(out_[k]) + at * bytes, graph.output(k), bytes);
      }
    }
    return Status::ok();
  }

  const BatchParts parts_;
  KernelBindContext *ctx_; // while binding
  ControlGraphs graphs_;   // by thread
  std::vector<Status> results_;
};

class ControlKernel final : public user_op::BindingKernel {
public:
  ControlKernel(std::shared_ptr<ControlGraphs> graphs, std::optional<LoopParts> loop, std::optional<BatchParts> parts)
      : graphs_(std::move(graphs)), loop_(loop), parts_(parts) {}

  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    std::unique_ptr<BoundControl> bound;
    if (loop_)
      bound = std::make_unique<BoundLoop>(ctx, *loop_);
    else if (parts_)
      bound = std::make_unique<BoundParts>(ctx, *parts_);
    else
      bound = std::make_unique<BoundIf>(ctx);
    if (Status s = bound->bind(*graphs_, ctx->device_ctx()); !s.isOk())
      throw ContractError(s.message() + (s.context().empty() ? "" : ", " + s.context()));
    return bound;
  }

private:
  const std::shared_ptr<ControlGraphs> graphs_;
  const std::optional<LoopParts> loop_;
  const std::optional<BatchParts> parts_;
};

Status invalid(const std::string &message) {
  return Status(StatusCode::kInvalidGraph, "OPC0826", "invalid plan: " + message).withHelp("compile the graph again");
}

/// The graph's inputs and outputs against what the op says.
Status checkPorts(const PlanModel &graph, const ControlPorts &ports) {
  for (const bool isInput : {true, false}) {
    const std::vector<ModelPort> &have = isInput ? graph.inputs : graph.outputs;
    const auto &want = isInput ? ports.inputs : ports.outputs;
    const std::string what = isInput ? "input" : "output";
    if (have.size() != want.size())
      return invalid("its graph has " + std::to_string(have.size()) + " " + what + "s, expected " +
                     std::to_string(want.size()));
    for (size_t i = 0; i < have.size(); ++i)
      if (const user_op::TensorDesc &desc = graph.tensors[have[i].tensor].desc; desc != want[i])
        return invalid(what + " " + std::to_string(i) + " of its graph is " + desc.toString() + ", expected " +
                       want[i].toString());
  }
  return Status::ok();
}

} // namespace

/// A task follows pointers to what its graph gives, whether a task of the graph has made it or not.
static Status checkDevices(const PlanModel &graph) {
  const auto check = [](const std::string &device) -> Status {
    if (deviceTypeOf(device) == DeviceType::kCPU) return Status::ok();
    return Status(StatusCode::kUnsupported, "OPC0820", "graphs of tasks run on the CPU, and one is for " + device)
        .withHelp("compile the graph for the CPU");
  };
  for (const auto &arena : graph.arenas) OPC_RETURN_IF_ERROR(check(arena.first));
  for (const PlanModel::Stream &s : graph.streams) OPC_RETURN_IF_ERROR(check(s.device));
  return Status::ok();
}

int64_t graphsOfTask(const plan::Task &task, int threads) {
  if (task.op_type() == kPartsType)
    for (const plan::Attribute &a : task.attr())
      if (a.name() == kPartsAttr) return graphsOfParts(std::max<int64_t>(a.value().at_int64(), 1), threads);
  return 1;
}

Result<std::shared_ptr<const user_op::KernelDef>> controlKernel(const plan::Task &task, const OpInstance &op,
                                                                const Registry &registry,
                                                                const std::shared_ptr<NativeImages> &native) {
  const ControlKind kind = controlKind(op.def().name);
  if (static_cast<size_t>(task.graph_size()) != controlGraphs(kind).size())
    return invalid("it has " + std::to_string(task.graph_size()) + " graphs, and its op " +
                   std::to_string(controlGraphs(kind).size()));
  const ControlPorts ports = controlPorts(op);
  auto graphs = std::make_shared<ControlGraphs>();
  for (const plan::Plan &plan : task.graph()) {
    OPC_ASSIGN_OR_RETURN(PlanModel model, buildPlanModel(plan, registry, {}, 0, native));
    OPC_RETURN_IF_ERROR(checkPorts(model, ports));
    OPC_RETURN_IF_ERROR(checkDevices(model));
    for (const ModelRegister &r : model.registers)
      if (r.isPrepared()) return invalid("register '" + r.name + "' of its graph is prepared");
    OPC_ASSIGN_OR_RETURN(std::vector<CrossEdge> edges, checkDataFlow(model));
    graphs->push_back(std::make_unique<ControlGraph>(std::move(model), std::move(edges), plan));
  }
  std::optional<LoopParts> loop;
  if (kind == ControlKind::kLoop) loop = loopParts(op);
  std::optional<BatchParts> parts;
  if (kind == ControlKind::kParts) parts = batchParts(op);
  auto def =
      std::make_shared<user_op::KernelDef>(user_op::OpKernelRegistry(op.def().name, __FILE__, __LINE__).GetResult());
  def->create = [graphs, loop, parts](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
    *out = std::make_unique<ControlKernel>(graphs, loop, parts);
    return Status::ok();
  };
  def->run = [](user_op::BoundKernel &kernel, DeviceCtx *ctx) {
    return static_cast<BoundControl &>(kernel).execute(ctx);
  };
  return std::shared_ptr<const user_op::KernelDef>(std::move(def));
}

} // namespace opc::runtime
