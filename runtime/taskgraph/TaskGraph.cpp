// The executable form of a plan: memory, kernels, lanes.
// SPDX-License-Identifier: Apache-2.0
#include "TaskGraph.h"

#include "ControlOp.h"
#include "LateInputs.h"
#include "MutableInputs.h"
#include "PluginCuda.h"
#include "StartedThread.h"
#include "Tf32.h"
#include "opc/PackedInputs.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

namespace opc::runtime {
namespace {

/// OPC_CUDA_GRAPHS=0 launches every kernel of every step by itself.
bool recordsSteps() {
  const char *value = std::getenv("OPC_CUDA_GRAPHS");
  return !value || std::string_view(value) != "0";
}

/// Whether there are kernels that lose NaN, or graphs in tasks that may have some.
bool losesNan(const PlanModel &model) {
  const auto isOne = [](const auto &op) { return op.type == "fused_conv2d"; };
  const auto mayHave = [&](const ModelTask::Part &p) { return isOne(p) || controlKind(p.type) != ControlKind::kNone; };
  return std::any_of(model.tasks.begin(), model.tasks.end(), [&](const ModelTask &t) {
    return isOne(t) ||
           (controlKind(t.type) != ControlKind::kNone && std::any_of(t.parts.begin(), t.parts.end(), mayHave));
  });
}

} // namespace

Result<std::unique_ptr<TaskGraph>> TaskGraph::create(PlanModel model, std::vector<CrossEdge> edges, int threads,
                                                     const RankLink &link, const TaskGraph *sibling) {
  std::unique_ptr<TaskGraph> g(new TaskGraph);
  g->model_ = std::move(model);
  g->link_ = link;
  g->isBoxing_ = g->model_.hasBoxing();
  g->memory_ = sibling ? sibling->memory_ : std::make_shared<Memory>();
  if (!sibling) OPC_RETURN_IF_ERROR(g->takeArenas());
  OPC_RETURN_IF_ERROR(g->makeLanes(threads));
  g->edges_ = std::move(edges);
  g->changed_.assign(g->model_.registers.size(), false);
  g->losesNan_ = losesNan(g->model_);
  OPC_ASSIGN_OR_RETURN(const bool poisons, Poison::isAsked());
  if (poisons) {
    g->poison_.emplace(g->model_);
    if (!sibling) OPC_RETURN_IF_ERROR(g->poison_->fillAll(g->model_, g->arenas(), g->arenaStreams_));
  }
  return g;
}

Result<Device *> TaskGraph::deviceOf(const std::string &name) {
  const bool isCpu = deviceTypeOf(name) == DeviceType::kCPU; // of which there is one, by several names
  for (const auto &d : memory_->devices)
    if (isCpu ? d->type() == DeviceType::kCPU : d->name() == name) return d.get();
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<Device> fresh, openDevice(name));
  memory_->devices.push_back(std::move(fresh));
  return memory_->devices.back().get();
}

/// The registers of an arena that need most, for whoever has too little.
std::string TaskGraph::largestOf(uint32_t arena) const {
  std::vector<const ModelRegister *> registers;
  for (const ModelRegister &r : model_.registers)
    if (r.arena == arena && r.bytes > 0) registers.push_back(&r);
  const size_t count = std::min<size_t>(3, registers.size());
  std::partial_sort(registers.begin(), registers.begin() + static_cast<std::ptrdiff_t>(count), registers.end(),
                    [](const ModelRegister *a, const ModelRegister *b) {
                      return a->bytes != b->bytes ? a->bytes > b->bytes : a->name < b->name;
                    });
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + registers[i]->name + " (" + std::to_string(registers[i]->bytes) + " bytes)";
  return text;
}

/// Beside another device the CPU is the one that it copies from.
Status TaskGraph::openDevices() {
  for (const auto &arena : model_.arenas)
    if (deviceTypeOf(arena.first) != DeviceType::kCPU) OPC_RETURN_IF_ERROR(deviceOf(arena.first).status());
  if (memory_->devices.empty()) {
    if (!isTf32Allowed()) return Status::ok();
    return Status(
               StatusCode::kUnsupported, "OPC0630",
               "TF32 is allowed (AllowTf32, --allow-tf32), and the plan is for the CPU: TF32 is for GPUs of compute capability 8.0 or later")
        .withHelp("leave it out: products of f32 are exact on the CPU; or compile the graph with --device gpu");
  }
  if (std::unique_ptr<Device> cpu = memory_->devices.front()->besideCpu()) memory_->devices.push_back(std::move(cpu));
  return Status::ok();
}

Status TaskGraph::takeArenas() {
  OPC_RETURN_IF_ERROR(openDevices());
  for (uint32_t i = 0; i < model_.arenas.size(); ++i) {
    OPC_ASSIGN_OR_RETURN(Device * device, deviceOf(model_.arenas[i].first));
    Status s = memory_->arenas.add(device, model_.arenas[i].second);
    if (s.isOk()) continue;
    if (s.id() == "OPC0614" && s.help().empty())
      return std::move(s).withHelp("the plan's largest buffers are " + largestOf(i) +
                                   ": smaller shapes (--shape), or a device with more memory");
    return s;
  }
  return Status::ok();
}

Status TaskGraph::makeLanes(int threads) {
  int streams = 0;
  for (const PlanModel::Stream &s : model_.streams)
    streams += !s.isComm() && deviceTypeOf(s.device) == DeviceType::kCPU; // others need no threads of the CPU
  for (const PlanModel::Stream &s : model_.streams) {
    Lane lane;
    OPC_ASSIGN_OR_RETURN(Device * device, deviceOf(s.isComm() ? DeviceTag(DeviceType::kCPU) : s.device));
    if (s.isComm() && !s.tasks.empty()) // beside the computation, where the tensors are
      if (const Device *of = deviceOf(model_.tasks[s.tasks[0]]); of && !of->isHostMemory()) device = ownDevice();
    lane.stream = device->createStream(s.isComm() ? 1 : std::max(1, threads / std::max(1, streams)));
    OPC_RETURN_IF_ERROR(lane.stream->synchronize()); // one that could not be made says why
    lanes_.push_back(std::move(lane));
  }
  if (lanes_.empty()) { // a plan of inputs and constants only: copies still need a stream
    Lane lane;
    OPC_ASSIGN_OR_RETURN(Device * device, deviceOf(model_.arenas.empty() ? "cpu" : model_.arenas[0].first));
    lane.stream = device->createStream(1);
    lanes_.push_back(std::move(lane));
  }
  // Copies between the host and an arena are work of a stream of its device.
  for (const auto &arena : model_.arenas) {
    OPC_ASSIGN_OR_RETURN(Device * device, deviceOf(arena.first));
    Stream *stream = nullptr;
    for (size_t s = 0; s < lanes_.size() && !stream; ++s) {
      const std::string &of = model_.streams.empty() ? arena.first : model_.streams[s].device;
      if (of != kCommDevice && *deviceOf(of) == device) stream = lanes_[s].stream.get();
    }
    if (!stream) {
      ownStreams_.push_back(device->createStream(1));
      stream = ownStreams_.back().get();
      OPC_RETURN_IF_ERROR(stream->synchronize());
    }
    arenaStreams_.push_back(stream);
  }
  return Status::ok();
}

TaskGraph::~TaskGraph() {
  stopping_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (Lane &lane : lanes_)
    if (lane.thread.joinable()) lane.thread.join();
}

void *TaskGraph::data(uint32_t tensor, int64_t step) const {
  const uint32_t reg = model_.tensors[tensor].reg;
  if (!lent_.empty() && lent_[reg]) return lent_[reg];
  const ModelRegister &r = model_.registers[reg];
  const uint64_t slot = static_cast<uint64_t>(step) % r.credits;
  return arenas().at(r.arena, r.offset + slot * r.stride);
}

Status TaskGraph::copyIn(uint32_t tensor, const void *from, int64_t step) {
  const ModelTensor &t = model_.tensors[tensor];
  Stream &stream = *arenaStreams_[model_.registers[t.reg].arena];
  OPC_RETURN_IF_ERROR(
      arenas().device(model_.registers[t.reg].arena).copyFromHost(stream, data(tensor, step), from, t.bytes));
  return stream.synchronize();
}

Status TaskGraph::copyPrefix(uint32_t tensor, const void *from, uint64_t bytes) {
  const ModelRegister &r = model_.registers[model_.tensors[tensor].reg];
  Stream &stream = *arenaStreams_[r.arena];
  OPC_RETURN_IF_ERROR(arenas().device(r.arena).copyFromHost(stream, data(tensor), from, std::min(bytes, r.bytes)));
  return stream.synchronize();
}

void TaskGraph::followOn(const TaskGraph &sibling) {
  step_ = sibling.step_;
  origin_ = sibling.origin_;
  seed_ = sibling.seed_;
  observe(sibling.observer_);
}

Status TaskGraph::copyOut(uint32_t tensor, int64_t step, void *to) const {
  const ModelTensor &t = model_.tensors[tensor];
  Stream &stream = *arenaStreams_[model_.registers[t.reg].arena];
  OPC_RETURN_IF_ERROR(
      arenas().device(model_.registers[t.reg].arena).copyToHost(stream, to, data(tensor, step), t.bytes));
  return stream.synchronize();
}

Status TaskGraph::copyPrefixOut(uint32_t tensor, void *to, uint64_t bytes) const {
  const ModelRegister &r = model_.registers[model_.tensors[tensor].reg];
  Stream &stream = *arenaStreams_[r.arena];
  OPC_RETURN_IF_ERROR(arenas().device(r.arena).copyToHost(stream, to, data(tensor), std::min(bytes, r.bytes)));
  return stream.synchronize();
}

bool TaskGraph::lend(uint32_t tensor, const void *from) {
  const uint32_t reg = model_.tensors[tensor].reg;
  if (lent_.empty() ? !from : lent_[reg] == from) return true;
  if (model_.registers[reg].credits != 1 || releasesPacked_ || model_.hasBoxing() || model_.arenas.size() > 1 ||
      !isHostMemory(tensor))
    return false;
  lent_.resize(model_.registers.size());
  lent_[reg] = const_cast<void *>(from); // no task writes an input's register
  markChanged(reg);
  return true;
}

bool TaskGraph::isConstant(uint32_t tensor) const { return model_.registers[model_.tensors[tensor].reg].isConstant(); }

/// Whether a kernel that reads the tensor must be bound again when its register has changed.
bool TaskGraph::isTiedTo(uint32_t tensor) const {
  const uint32_t reg = model_.tensors[tensor].reg;
  return changed_[reg] && (isConstant(tensor) || model_.registers[reg].kind == plan::Register::INPUT);
}

std::vector<void *> TaskGraph::addresses(uint32_t index, uint32_t variant, void **workspace) const {
  const ModelTask &task = model_.tasks[index];
  std::vector<void *> out;
  out.reserve(task.inputs.size() + task.outputs.size());
  for (uint32_t t : task.inputs) out.push_back(data(t, variant));
  for (auto at = readElsewhere_.lower_bound({index, 0}); at != readElsewhere_.end() && at->first == index; ++at)
    out[at->second] = const_cast<void *>(elsewhere_.at(model_.tensors[task.inputs[at->second]].reg).second.get());
  for (uint32_t t : task.outputs) out.push_back(data(t, variant));
  *workspace = task.workspace == kNone ? nullptr : data(task.workspace, variant);
  return out;
}

Status TaskGraph::countVariants(const ModelTask &task, uint64_t *variants) {
  // Slots of several registers turn at their own rates: one kernel task for each combination that occurs.
  *variants = 1;
  auto turn = [&](uint32_t tensor) {
    *variants = std::lcm(*variants, uint64_t{model_.registers[model_.tensors[tensor].reg].credits});
  };
  for (uint32_t t : task.inputs) turn(t);
  for (uint32_t t : task.outputs) turn(t);
  if (task.workspace != kNone) turn(task.workspace);
  // Kernels take memory that no arena accounts for: a plan must not multiply them at will.
  kernelTasks_ += *variants;
  if (*variants > 4096 || kernelTasks_ > model_.tasks.size() + (1 << 18))
    return Status(StatusCode::kUnsupported, "OPC0813",
                  "the credits of its registers combine to " + std::to_string(*variants) + " slots, too many kernels");
  return Status::ok();
}

Status TaskGraph::bindBoxing(uint32_t index, int channel) {
  const ModelTask &task = model_.tasks[index];
  if (!link_.communicator)
    return Status(StatusCode::kInternal, "OPC0901", "a boxing task, and no other rank to talk to");
  uint64_t variants = 1;
  OPC_RETURN_IF_ERROR(countVariants(task, &variants));
  OPC_ASSIGN_OR_RETURN(BoxingExecutor executor,
                       BoxingExecutor::create(task.boxing, model_.rank, task.name, link_.boxing));
  const size_t count = task.boxing.size();
  auto boxing = std::make_unique<BoxingTask>(std::move(executor), channel);
  for (int64_t v = 0; v < static_cast<int64_t>(variants); ++v) {
    std::vector<const void *> inputs(count, nullptr); // nothing where this rank is outside
    std::vector<void *> outputs(count, nullptr);
    for (size_t i = 0; i < task.inputs.size(); ++i) inputs[i] = data(task.inputs[i], v);
    for (size_t i = 0; i < task.outputs.size(); ++i) outputs[i] = data(task.outputs[i], v);
    boxing->addVariant(std::move(inputs), std::move(outputs));
  }
  boxings_[index] = std::move(boxing);
  Status status = prepareExchange(index, channel);
  if (!status.isOk()) boxings_[index].reset();
  return status;
}

/// The device that is not the CPU; null where there is none.
Device *TaskGraph::ownDevice() const {
  for (const auto &d : memory_->devices)
    if (!d->isHostMemory()) return d.get();
  return nullptr;
}

/// The device of the tensors of a task without copies between devices, all of which are on one.
const Device *TaskGraph::deviceOf(const ModelTask &task) const {
  const std::vector<uint32_t> &tensors = task.inputs.empty() ? task.outputs : task.inputs;
  return tensors.empty() ? nullptr : &arenas().device(model_.registers[model_.tensors[tensors[0]].reg].arena);
}

/// A call of all ranks of the job.
Status TaskGraph::linkDevices() {
  if (isLinked_) return Status::ok();
  if (!link_.hasDevices || !link_.communicator) {
    isLinked_ = true;
    return Status::ok();
  }
  const bool isAnew = exchange_ != nullptr;
  exchange_.reset();
  OPC_ASSIGN_OR_RETURN(exchange_, DeviceExchange::open(ownDevice(), *link_.communicator, link_.exchange));
  isLinked_ = true;
  if (!isAnew) return Status::ok();
  for (size_t s = 0; s < model_.streams.size(); ++s)
    for (uint32_t t : model_.streams[s].tasks)
      if (boxings_[t]) OPC_RETURN_IF_ERROR(prepareExchange(t, static_cast<int>(s)));
  return Status::ok();
}

Status TaskGraph::prepareExchange(uint32_t index, int channel) {
  const Device *device = deviceOf(model_.tasks[index]);
  if (!device || device->isHostMemory()) return Status::ok();
  if (!exchange_) return Status(StatusCode::kInternal, "OPC0901", "boxing on a device of a job that has none");
  BoxingTask &boxing = *boxings_[index];
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<DeviceBoxing> made,
                       exchange_->prepare(model_.tasks[index].boxing, boxing.executor(), *link_.communicator, channel));
  boxing.setDevice(std::move(made));
  return Status::ok();
}

Status TaskGraph::takeScratch() {
  for (size_t s = 0; s < model_.streams.size(); ++s) {
    size_t bytes = 0, deviceBytes = 0;
    for (uint32_t t : model_.streams[s].tasks) {
      if (!boxings_[t]) continue;
      bytes = std::max(bytes, boxings_[t]->hostBytes());
      deviceBytes = std::max(deviceBytes, boxings_[t]->deviceBytes());
    }
    const auto take = [](Device &device, size_t wanted, DeviceMemory *to) -> Status {
      if (to->bytes() >= wanted) return Status::ok();
      Result<DeviceMemory> memory = device.allocateUnwritten(wanted);
      if (!memory) return Status(memory.status()).withContext("taking the scratch of boxing tasks");
      *to = std::move(*memory);
      return Status::ok();
    };
    OPC_ASSIGN_OR_RETURN(Device * cpu, deviceOf(DeviceTag(DeviceType::kCPU)));
    OPC_RETURN_IF_ERROR(take(*cpu, bytes, &lanes_[s].scratch));
    if (deviceBytes > 0) OPC_RETURN_IF_ERROR(take(*ownDevice(), deviceBytes, &lanes_[s].deviceScratch));
    DeviceBoxing::Scratch scratch;
    scratch.device = reinterpret_cast<char *>(lanes_[s].deviceScratch.data());
    scratch.host = reinterpret_cast<char *>(lanes_[s].scratch.data());
    for (uint32_t t : model_.streams[s].tasks)
      if (boxings_[t]) boxings_[t]->setScratch(scratch);
  }
  return Status::ok();
}

Status TaskGraph::bindTask(uint32_t index, Stream &stream) {
  ModelTask &task = model_.tasks[index];
  uint64_t variants = 1;
  OPC_RETURN_IF_ERROR(countVariants(task, &variants));
  std::vector<bool> constant;
  for (uint32_t t : task.inputs) constant.push_back(isConstant(t));
  for (uint32_t v = 0; v < variants; ++v) {
    void *workspace = nullptr;
    const std::vector<void *> data = addresses(index, v, &workspace);
    const auto create = [&](OpInstance &&op) {
      return KernelTask::create(std::move(op), *task.kernel, stream.context(), data, constant, workspace,
                                task.workspaceBytes);
    };
    OPC_ASSIGN_OR_RETURN(std::unique_ptr<KernelTask> kernel,
                         v + 1 == variants ? create(std::move(*task.op)) : create(OpInstance(*task.op)));
    if (const Device *device = deviceOf(task))
      if (Status status = checkCudaRuntimeOf(*kernel, *device); !status.isOk()) {
        *task.op = kernel->op(); // for another try
        return status;
      }
    kernels_[index].push_back(std::move(kernel));
    variants_[index].push_back(kernels_[index].back().get());
  }
  task.op.reset();
  return Status::ok();
}

void TaskGraph::countReads() {
  unpackedReads_.assign(model_.registers.size(), 0);
  released_.assign(model_.registers.size(), false);
  for (const ModelTask &t : model_.tasks)
    if (!t.isView)
      for (uint32_t in : t.inputs) ++unpackedReads_[model_.tensors[in].reg];
  for (const ModelPort &p : model_.outputs) ++unpackedReads_[model_.tensors[p.tensor].reg];
}

/// A reader of a tensor will not read it again, unless it is bound again.
void TaskGraph::noteRead(uint32_t tensor) {
  constexpr uint64_t kWorthIt = 64 * 1024;
  const uint32_t index = model_.tensors[tensor].reg;
  const ModelRegister &r = model_.registers[index];
  if (--unpackedReads_[index] != 0 || r.bytes < kWorthIt) return;
  if (lent_.empty() || !lent_[index])
    arenas().device(r.arena).discard(arenas().at(r.arena, r.offset), r.bytes);
  else if (hearPacked_)
    hearPacked_(tensor);
  released_[index] = anyReleased_ = true;
}

void TaskGraph::notePacked(uint32_t index) {
  std::vector<const void *> packed = user_op::takePackedInputs();
  const ModelTask &task = model_.tasks[index];
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    const uint32_t t = task.inputs[i];
    if (readElsewhere_.count({index, i})) {
      noteRead(t);
      continue;
    }
    // One note is one argument: the same tensor may be another argument, too, which is read.
    const auto note = std::find(packed.begin(), packed.end(), data(t));
    if (!releasesPacked_ || note == packed.end() || !isConstant(t)) continue;
    packed.erase(note);
    noteRead(t);
  }
}

/// Whether the kernel that is to be made reads this input where it lies, and no copy of it: from now on.
bool TaskGraph::readElsewhere(uint32_t index, size_t input) {
  constexpr uint64_t kWorthIt = uint64_t{64} << 10;
  const ModelTask &task = model_.tasks[index];
  const uint32_t tensor = task.inputs[input], reg = model_.tensors[tensor].reg;
  const auto lies = elsewhere_.find(reg);
  if (!releasesPacked_ || lies == elsewhere_.end() || lies->second.first != tensor || !isConstant(tensor)) return false;
  if (!task.op || model_.registers[reg].bytes < kWorthIt || !isHostMemory(tensor)) return false;
  if (!KernelTask::mayBeUnaligned(*task.op, *task.kernel, input)) return false;
  readElsewhere_.insert({index, input});
  return true;
}

/// The variable gets another value, here: its readers are tied to that.
void TaskGraph::fillNever(uint32_t tensor) {
  const uint32_t reg = model_.tensors[tensor].reg;
  fills_.erase(reg);
  if (elsewhere_.erase(reg) == 0) return;
  for (auto at = readElsewhere_.begin(); at != readElsewhere_.end();)
    at = model_.tensors[model_.tasks[at->first].inputs[at->second]].reg == reg ? readElsewhere_.erase(at) : ++at;
}

Status TaskGraph::fillRegister(uint32_t reg) {
  const auto found = fills_.find(reg);
  if (found == fills_.end()) return Status::ok();
  OPC_RETURN_IF_ERROR(found->second.second(data(found->second.first)));
  fills_.erase(found);
  return Status::ok();
}

/// A stream's tasks as they run; but those that read the largest values that are still to be written come first, and
/// the largest of them before the others: while it is packed it is in memory twice, beside what has been packed by
/// then.
std::vector<uint32_t> TaskGraph::bindingOrder(const std::vector<uint32_t> &tasks) const {
  if (!releasesPacked_ || fills_.empty()) return tasks;
  constexpr uint64_t kLarge = 16 << 20;
  auto unwritten = [&](uint32_t index) {
    uint64_t most = 0;
    for (uint32_t t : model_.tasks[index].inputs)
      if (const uint32_t reg = model_.tensors[t].reg; fills_.count(reg))
        most = std::max(most, model_.registers[reg].bytes);
    return most < kLarge ? 0 : most;
  };
  std::vector<std::pair<uint64_t, uint32_t>> sized;
  for (uint32_t index : tasks) sized.emplace_back(unwritten(index), index);
  std::stable_sort(sized.begin(), sized.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<uint32_t> order;
  for (const auto &[bytes, index] : sized) order.push_back(index);
  return order;
}

/// What a task reads, while its kernel is made. If it cannot be made, what was filled is filled again for the next try.
class TaskGraph::TaskInputs final : public LateInputs {
public:
  TaskInputs(TaskGraph &graph, const ModelTask &task) : graph_(graph), inputs_(task.inputs), filled_(inputs_.size()) {}

  Status fill(size_t input) override {
    const auto found = graph_.fills_.find(registerOf(input));
    if (found == graph_.fills_.end() || filled_[input]) return Status::ok();
    filled_[input] = true;
    return found->second.second(graph_.data(found->second.first));
  }
  void packed(size_t input) override {
    const uint32_t reg = registerOf(input);
    const ModelRegister &r = graph_.model_.registers[reg];
    if (!graph_.releasesPacked_ || !graph_.isConstant(inputs_[input]) || graph_.unpackedReads_[reg] != 1) return;
    isLost_ |= graph_.fills_.count(reg) == 0;
    graph_.arenas().device(r.arena).discard(graph_.arenas().at(r.arena, r.offset), r.bytes);
  }
  /// Something is given back that could not be written again for another kernel.
  bool isLost() const { return isLost_; }
  /// The kernel has been made.
  Status finish() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (filled_[i]) graph_.fills_.erase(registerOf(i));
      OPC_RETURN_IF_ERROR(graph_.fillRegister(registerOf(i)));
    }
    return Status::ok();
  }

private:
  uint32_t registerOf(size_t input) const { return graph_.model_.tensors[inputs_[input]].reg; }
  TaskGraph &graph_;
  const std::vector<uint32_t> inputs_; // tensors
  std::vector<bool> filled_;
  bool isLost_ = false;
};

Status TaskGraph::bindLate(uint32_t index, Stream &stream) {
  TaskInputs inputs(*this, model_.tasks[index]);
  const LateInputs::Scope scope(&inputs);
  if (Status status = bindTask(index, stream); !status.isOk()) {
    hasLost_ |= inputs.isLost();
    return status;
  }
  return inputs.finish();
}

/// What the task reads is written first, where that is still to be done; a kernel with graphs for parts of a batch asks
/// for it itself.
Status TaskGraph::makeKernels(uint32_t index, Stream &stream) {
  const ModelTask &task = model_.tasks[index];
  const bool isLate = task.op && controlKind(task.op->def().name) == ControlKind::kParts;
  if (!fills_.empty() && !isLate)
    for (size_t i = 0; i < task.inputs.size(); ++i)
      if (!readElsewhere(index, i)) OPC_RETURN_IF_ERROR(fillRegister(model_.tensors[task.inputs[i]].reg));
  kernels_[index].clear();
  variants_[index].clear();
  Status status = isLate ? bindLate(index, stream) : bindTask(index, stream);
  return status.isOk() ? status : std::move(status).withContext("preparing " + model_.describe(index));
}

/// The tasks that run once, in the order of their stream: before the kernels of the others are made, which may pack
/// what they make.
Status TaskGraph::prepare() {
  for (size_t s = 0; s < model_.streams.size(); ++s) {
    lanes_[s].stream->enter();
    for (uint32_t index : model_.streams[s].tasks) {
      if (!model_.tasks[index].isPrepared || isReady_[index]) continue;
      if (model_.tasks[index].op) OPC_RETURN_IF_ERROR(makeKernels(index, *lanes_[s].stream));
      user_op::takePackedInputs(); // it reads all of them, now
      OPC_RETURN_IF_ERROR(runOnce(index, *lanes_[s].stream));
      isReady_[index] = true;
      for (uint32_t t : model_.tasks[index].inputs)
        if (releasesPacked_ && isConstant(t)) noteRead(t);
    }
  }
  return Status::ok();
}

Status TaskGraph::runOnce(uint32_t index, Stream &stream) {
  showsPrepared_ = true;
  Status status = kernels_[index].front()->run(stream.context());
  if (status.isOk()) status = stream.synchronize();
  return status.isOk() ? status : failed(std::move(status), index);
}

Status TaskGraph::bind() {
  if (hasLost_)
    return Status(StatusCode::kUsage, "OPC0617",
                  "kernels could not be made after some of them had packed the weights, and the session does not keep "
                  "the originals")
        .withHelp("load the plan again");
  if (releasesPacked_ && unpackedReads_.empty()) countReads();
  kernels_.resize(model_.tasks.size());
  variants_.resize(model_.tasks.size());
  boxings_.resize(model_.tasks.size());
  isReady_.resize(model_.tasks.size());
  OPC_RETURN_IF_ERROR(linkDevices());
  OPC_RETURN_IF_ERROR(renewAll()); // those of a bind that failed half way
  OPC_RETURN_IF_ERROR(prepare());
  for (size_t s = 0; s < model_.streams.size(); ++s) {
    lanes_[s].stream->enter();
    for (uint32_t index : bindingOrder(model_.streams[s].tasks)) {
      if (model_.tasks[index].isBoxing() && !boxings_[index])
        if (Status status = bindBoxing(index, static_cast<int>(s)); !status.isOk())
          return std::move(status).withContext("preparing " + model_.describe(index));
      // A bind that failed half way is taken up where it stopped.
      if (!model_.tasks[index].isRun() || !model_.tasks[index].op) continue;
      OPC_RETURN_IF_ERROR(makeKernels(index, *lanes_[s].stream));
      notePacked(index);
    }
  }
  std::erase_if(fills_, [&](const auto &fill) { return isReleased(fill.first); });  // all readers have it elsewhere
  while (!fills_.empty()) OPC_RETURN_IF_ERROR(fillRegister(fills_.begin()->first)); // read by no kernel, or fetched
  OPC_RETURN_IF_ERROR(takeScratch());
  OPC_RETURN_IF_ERROR(startThreads());
  buildLanes(edges_);
  bound_ = true;
  return Status::ok();
}

/// Those that are there already wait for the first run.
Status TaskGraph::startThreads() {
  for (size_t s = 1; s < lanes_.size(); ++s) {
    if (lanes_[s].thread.joinable()) continue;
    OPC_ASSIGN_OR_RETURN(lanes_[s].thread, startedThread([this, s] { workerLoop(&lanes_[s]); }));
  }
  return Status::ok();
}

void TaskGraph::markChanged(uint32_t reg) {
  changed_[reg] = anyChanged_ = true; // of a graph that is not bound, too: a bind that failed has made some kernels
}

/// Ties a task anew to what has changed of what it reads.
Status TaskGraph::renew(uint32_t index, Stream &stream) {
  const ModelTask &task = model_.tasks[index];
  if (task.op) return Status::ok(); // it has no kernel yet
  if (std::none_of(task.inputs.begin(), task.inputs.end(), [&](uint32_t t) { return isTiedTo(t); }))
    return Status::ok();
  for (uint32_t v = 0; v < kernels_[index].size(); ++v) {
    void *workspace = nullptr;
    const std::vector<void *> data = addresses(index, v, &workspace);
    if (Status status = kernels_[index][v]->rebind(data, workspace, stream.context()); !status.isOk())
      return std::move(status).withContext("preparing " + model_.describe(index));
  }
  if (!task.isPrepared) return Status::ok();
  // Until it has run, what it makes is no value: a run that fails now is made up for by the next one.
  isReady_[index] = false;
  for (uint32_t out : task.outputs) changed_[model_.tensors[out].reg] = true;
  OPC_RETURN_IF_ERROR(runOnce(index, stream));
  isReady_[index] = true;
  return Status::ok();
}

/// Ties all kernels that have been made to what has changed.
Status TaskGraph::renewAll() {
  if (!anyChanged_) return Status::ok();
  for (const bool isPrepared : {true, false})
    for (size_t s = 0; s < model_.streams.size(); ++s) {
      lanes_[s].recording.reset(); // with the arguments of before
      lanes_[s].stream->enter();
      for (uint32_t index : model_.streams[s].tasks)
        if (!model_.tasks[index].isView && model_.tasks[index].isPrepared == isPrepared)
          OPC_RETURN_IF_ERROR(renew(index, *lanes_[s].stream));
    }
  std::fill(changed_.begin(), changed_.end(), false);
  anyChanged_ = false;
  return Status::ok();
}

Status TaskGraph::refresh() {
  if (!isLinked_) {
    OPC_RETURN_IF_ERROR(linkDevices());
    OPC_RETURN_IF_ERROR(takeScratch());
  }
  OPC_RETURN_IF_ERROR(renewAll());
  return Status::ok();
}

/// Kernels that stand side by side and need the same thing pass it on.
void TaskGraph::noteLeaving(Lane &lane) {
  std::vector<bool> leaves(lane.plain.size());
  for (size_t i = 0; i + 1 < leaves.size(); ++i) leaves[i] = lane.plain[i]->mayLeaveTo(*lane.plain[i + 1]);
  if (std::find(leaves.begin(), leaves.end(), true) != leaves.end()) lane.leaves = std::move(leaves);
}

void TaskGraph::buildLanes(const std::vector<CrossEdge> &edges) {
  std::vector<std::vector<Wait>> waits(model_.tasks.size());
  std::vector<std::vector<Counter *>> signals(model_.tasks.size());
  std::vector<std::optional<StreamMark *>> marks(model_.tasks.size());
  Counter *produced = nullptr;
  for (size_t i = 0; i < edges.size(); ++i) {
    const CrossEdge &e = edges[i];
    if (i == 0 || edges[i - 1].reg != e.reg) { // one produced counter a register, one consumed counter a reader
      produced = &counters_.emplace_back(0);
      signals[e.lastWriter].push_back(produced);
    }
    Counter *consumed = &counters_.emplace_back(0);
    waits[e.firstReader].push_back({produced, 1, markBehind(e.lastWriter, &marks)});
    signals[e.lastReader].push_back(consumed);
    waits[e.firstWriter].push_back(
        {consumed, 1 - static_cast<int64_t>(model_.registers[e.reg].credits), markBehind(e.lastReader, &marks)});
  }
  for (size_t s = 0; s < model_.streams.size(); ++s) {
    Lane &lane = lanes_[s];
    bool plain = true;
    for (uint32_t index : model_.streams[s].tasks) {
      const ModelTask &task = model_.tasks[index];
      if (!task.isRun()) continue;
      Operation op;
      op.variants = variants_[index].data();
      op.boxing = boxings_[index].get();
      op.variantCount = static_cast<uint32_t>(op.boxing ? op.boxing->variants() : variants_[index].size());
      op.stride = task.stride;
      op.lag = task.lag;
      lane.maxLag = std::max(lane.maxLag, task.lag);
      op.task = index;
      op.mark = marks[index].value_or(nullptr);
      op.waitBegin = static_cast<uint32_t>(lane.waits.size());
      lane.waits.insert(lane.waits.end(), waits[index].begin(), waits[index].end());
      op.waitEnd = static_cast<uint32_t>(lane.waits.size());
      op.signalBegin = static_cast<uint32_t>(lane.signals.size());
      lane.signals.insert(lane.signals.end(), signals[index].begin(), signals[index].end());
      op.signalEnd = static_cast<uint32_t>(lane.signals.size());
      plain &= op.variantCount == 1 && op.stride == 1 && op.lag == 0 && !op.boxing && op.waitBegin == op.waitEnd &&
               op.signalBegin == op.signalEnd;
      lane.operations.push_back(op);
      if (plain) lane.plain.push_back(op.variants[0]);
    }
    if (!plain) lane.plain.clear();
    if (plain && lane.stream->contextAlone()) lane.gain.emplace(lane.plain.size());
    noteLeaving(lane);
    lane.repeats = lane.plain.size() > 1 && lane.stream->records() && recordsSteps() &&
                   std::all_of(lane.operations.begin(), lane.operations.end(),
                               [&](const Operation &op) { return mayRepeat(op.task); });
  }
  recordsAll_ = recordsSteps() && mayRecordAll();
  if (!losesNan_ || lanes_[0].plain.empty()) return;
  if (!mayRunAgain()) carefulRuns_ = INT64_MAX;
  (void)lanes_[0].stream->takeInvalid(/*alone=*/false); // from now on
}

/// The mark that a task sets when it has signalled; null where its stream needs none.
StreamMark *TaskGraph::markBehind(uint32_t task, std::vector<std::optional<StreamMark *>> *marks) {
  std::optional<StreamMark *> &mark = (*marks)[task]; // asked for once: all who wait for the task wait in one way
  Lane &lane = lanes_[model_.tasks[task].stream];
  if (mark) return *mark;
  lane.marks.push_back(lane.stream->createMark());
  mark = lane.marks.back().get();
  return *mark;
}

/// Whether a run that has met NaN can be made again: no task keeps anything, or writes what it is given.
bool TaskGraph::mayRunAgain() const {
  return std::none_of(model_.registers.begin(), model_.registers.end(),
                      [](const ModelRegister &r) { return r.isWritten; }) &&
         std::all_of(lanes_[0].operations.begin(), lanes_[0].operations.end(),
                     [&](const Operation &op) { return mayRepeat(op.task); });
}

/// Whether a kernel does the same in every step: no draw from the step's number, nothing that it keeps. Of ops that
/// write their inputs only bound kernels, which have read all that they need.
bool TaskGraph::mayRepeat(uint32_t task) const {
  const auto isRepeatable = [&](const OpInstance &op) {
    return op.def().pure || (writesInputs(op.def(), op.conf()) && variants_[task].front()->bound());
  };
  const auto areRepeatable = [&](const auto &steps) {
    return std::all_of(steps.begin(), steps.end(), [&](const auto &s) { return isRepeatable(s.op); });
  };
  const ModelTask &t = model_.tasks[task];
  if (t.region) return areRepeatable(t.region->steps);
  return t.batch ? areRepeatable(t.batch->steps) : isRepeatable(variants_[task].front()->op());
}

} // namespace opc::runtime
