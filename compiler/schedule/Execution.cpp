// Kernels and buffers of a scheduled graph.
// SPDX-License-Identifier: Apache-2.0
#include "AssignDevices.h"
#include "AttrBridge.h"
#include "ColumnParts.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "Locations.h"
#include "RegionBridge.h"
#include "Schedule.h"
#include "TaskFacts.h"

using namespace mlir;

namespace opc {
namespace {

int64_t lagOf(Operation *op) {
  auto lag = op->getAttrOfType<IntegerAttr>(ir::kLagAttr);
  return lag ? lag.getInt() : 0;
}

/// The buffers of streams whose tasks lag by different numbers of micro-batches.
class Turns {
public:
  Turns(Block &block, const DeviceSides &sides, ExecutionSchedule *out) : block_(block), sides_(sides), out_(*out) {}

  /// What tasks of several lags use lives from one turn of the stream to another, and an output to the end of the run,
  /// which is in a later turn where anything lags: they keep their memory for themselves.
  void keep() {
    constexpr int64_t kUnused = -1;
    std::vector<int64_t> lags(out_.buffers.size(), kUnused);
    std::vector<bool> streamLags;
    const auto use = [&](Value v, int64_t lag) {
      const uint32_t buffer = out_.bufferOf.lookup(v);
      if (lags[buffer] == kUnused) lags[buffer] = lag;
      if (lags[buffer] != lag) out_.buffers[buffer].plan.persistent = true;
    };
    for (Operation &op : block_) {
      if (!ir::isTask(&op)) continue;
      const uint32_t stream = sides_.streamOf(&op);
      if (stream >= streamLags.size()) streamLags.resize(stream + 1, false);
      if (lagOf(&op)) streamLags[stream] = true;
      for (Value v : op.getOperands()) use(v, lagOf(&op));
      for (Value v : op.getResults()) use(v, lagOf(&op));
    }
    for (auto out : block_.getOps<ir::OutputOp>())
      if (Operation *maker = out.getIn().getDefiningOp();
          maker && ir::isTask(maker) && streamLags[sides_.streamOf(maker)])
        out_.buffers[out_.bufferOf.lookup(out.getIn())].plan.persistent = true;
  }

  /// A slot for every micro-batch that is under way between a tensor's maker and its last reader; for each of a step's
  /// micro-batches in inputs, which are fed at once.
  void addSlots(int64_t microBatches) {
    std::vector<int64_t> made(out_.buffers.size(), 0), read(out_.buffers.size(), 0);
    for (Operation &op : block_) {
      if (!ir::isTask(&op)) continue;
      const int64_t lag = lagOf(&op);
      for (Value v : op.getOperands()) read[out_.bufferOf.lookup(v)] = std::max(read[out_.bufferOf.lookup(v)], lag);
      if (const user_op::OpDef *def = ir::definitionOf(&op); def && def->isView) continue;
      for (Value v : op.getResults()) made[out_.bufferOf.lookup(v)] = std::max(made[out_.bufferOf.lookup(v)], lag);
    }
    for (size_t i = 0; i < out_.buffers.size(); ++i) {
      ScheduledBuffer &b = out_.buffers[i];
      if (b.kind == BufferKind::kInput)
        b.credits = static_cast<uint32_t>(microBatches);
      else if (b.kind == BufferKind::kActivation && read[i] > made[i])
        b.credits = static_cast<uint32_t>(read[i] - made[i] + 1);
      if (b.credits == 1) continue;
      b.stride = alignBuffer(b.plan.bytes);
      b.plan.bytes = b.stride * b.credits;
      b.plan.persistent = true;
    }
  }

private:
  Block &block_;
  const DeviceSides &sides_;
  ExecutionSchedule &out_;
};

class Planner {
public:
  Planner(const Registry &registry, DeviceType device, ExecutionSchedule *out, bool inPlace, int64_t microBatches,
          const SizeFacts *sizes)
      : registry_(registry), device_(device), out_(out), inPlace_(inPlace), microBatches_(microBatches), sizes_(sizes),
        knownTasks_(registry) {}

  LogicalResult run(ModuleOp module) {
    Block &block = graphBlock(module);
    sides_.emplace(block, device_);
    if (sides_->areTwo()) out_->streams = static_cast<uint32_t>(DeviceStream::kFirstChannel);
    countUses(block);
    for (Operation &op : block) {
      if (auto user = dyn_cast<ir::UserOp>(&op)) {
        addTask(user);
      } else if (auto boxing = dyn_cast<ir::BoxingOp>(&op)) {
        addBoxing(boxing);
      } else if (auto fused = dyn_cast<ir::FusedOp>(&op)) {
        addRegion(fused);
      } else if (isa<ir::InputOp>(&op)) {
        addBuffer(op.getResult(0), BufferKind::kInput);
      } else if (isa<ir::VariableOp>(&op)) {
        addBuffer(op.getResult(0), BufferKind::kVariable);
      } else if (isa<ir::ConstantOp>(&op)) {
        addBuffer(op.getResult(0), BufferKind::kConstant);
      }
    }
    if (failed_) return failure();
    // Streams run at their own pace: what another one than the computation's uses keeps its memory for itself.
    for (size_t i = 0; i < out_->buffers.size(); ++i)
      if (isShared(static_cast<uint32_t>(i))) out_->buffers[i].plan.persistent = true;
    Turns turns(block, *sides_, out_);
    turns.keep();
    turns.addSlots(microBatches_);
    out_->memory = planArena(BufferArena::kDevice);
    if (sides_->areTwo()) out_->cpuMemory = planArena(BufferArena::kCpu);
    return success();
  }

private:
  MemoryPlan planArena(BufferArena arena) {
    std::vector<PlannedBuffer> plans;
    for (const auto &b : out_->buffers)
      if (b.arena == arena) plans.push_back(b.plan);
    const MemoryPlan memory = planMemory(&plans);
    auto next = plans.begin();
    for (auto &b : out_->buffers)
      if (b.arena == arena) b.plan = *next++;
    return memory;
  }

  BufferArena arenaOf(bool isOnCpu) const {
    return sides_->areTwo() && isOnCpu ? BufferArena::kCpu : BufferArena::kDevice;
  }

  /// The last task that reads each tensor; graph outputs are read after the last task.
  void countUses(Block &block) {
    uint32_t task = 0;
    for (Operation &op : block) {
      if (ir::isTask(&op)) {
        for (Value v : op.getOperands()) lastUse_[v] = task;
        ++task;
      }
    }
    taskCount_ = task;
    for (Operation &op : block)
      if (auto o = dyn_cast<ir::OutputOp>(&op)) lastUse_[o.getIn()] = taskCount_;
  }

  uint32_t lastUse(Value v, uint32_t fallback) const {
    auto it = lastUse_.find(v);
    return it == lastUse_.end() ? fallback : it->second;
  }

  uint32_t addBuffer(Value v, BufferKind kind) {
    const user_op::TensorDesc desc = ir::descOf(v.getType());
    ScheduledBuffer b;
    b.name = ir::tensorName(v);
    b.kind = kind;
    b.arena = arenaOf(sides_->isOnCpu(v));
    // Every tensor has an address: an empty one gets the smallest slot.
    b.plan.bytes = std::max<uint64_t>(1, static_cast<uint64_t>(*tensorBytes(desc)));
    b.plan.persistent = kind != BufferKind::kActivation;
    const uint32_t now = static_cast<uint32_t>(out_->tasks.size());
    b.plan.first = now;
    b.plan.last = std::max(now, lastUse(v, now));
    out_->buffers.push_back(std::move(b));
    const uint32_t index = static_cast<uint32_t>(out_->buffers.size() - 1);
    out_->bufferOf[v] = index;
    return index;
  }

  void share(Value v, uint32_t buffer) {
    out_->bufferOf[v] = buffer;
    PlannedBuffer &p = out_->buffers[buffer].plan;
    const uint32_t now = static_cast<uint32_t>(out_->tasks.size());
    p.last = std::max(p.last, std::max(now, lastUse(v, now)));
  }

  /// May output `o` overwrite input `i`? Its buffer must be an activation, read here for the last time, of the same
  /// size, and no other operand may look into it under another shape.
  bool mayOverwrite(Operation *op, int o, int i, ArrayRef<std::pair<int, int>> offered) const {
    Value in = op->getOperand(static_cast<unsigned>(i));
    // The same tensor as another operand (bias_add(r, r)): the kernel must offer that one for overwriting, too.
    for (auto [k, v] : llvm::enumerate(op->getOperands()))
      if (v == in && !llvm::is_contained(offered, std::make_pair(o, static_cast<int>(k)))) return false;
    const uint32_t buffer = out_->bufferOf.lookup(in);
    const ScheduledBuffer &b = out_->buffers[buffer];
    const uint32_t now = static_cast<uint32_t>(out_->tasks.size());
    if (b.kind != BufferKind::kActivation || b.plan.last > now || isShared(buffer)) return false;
    for (Operation *reader : op->getResult(static_cast<unsigned>(o)).getUsers())
      if (streamOf(reader) != streamOf(op) || lagOf(reader) != lagOf(op)) return false; // another step still uses it
    for (Value v : op->getOperands())
      if (out_->bufferOf.lookup(v) == buffer)
        for (Operation *reader : v.getUsers())
          if (streamOf(reader) != streamOf(op) || lagOf(reader) != lagOf(op)) return false;
    if (Operation *maker = in.getDefiningOp(); maker && lagOf(maker) != lagOf(op)) return false;
    for (Value v : op->getOperands())
      if (v != in && out_->bufferOf.lookup(v) == buffer) return false;
    return ir::bytesOf(in) == ir::bytesOf(op->getResult(static_cast<unsigned>(o)));
  }

  uint32_t streamOf(Operation *op) const { return sides_->streamOf(op); }

  /// What a stream uses that is not the one of the computation where the buffer lies.
  void touch(Operation *op, uint32_t stream) {
    if (stream == 0 && !sides_->areTwo()) return; // nothing else is used by anybody
    out_->streams = std::max(out_->streams, stream + 1);
    usedAside_.resize(out_->buffers.size(), false);
    const auto note = [&](Value v) {
      const uint32_t buffer = out_->bufferOf.lookup(v);
      if (stream != static_cast<uint32_t>(out_->buffers[buffer].arena)) usedAside_[buffer] = true;
    };
    for (Value v : op->getOperands()) note(v);
    for (Value v : op->getResults()) note(v);
  }
  bool isShared(uint32_t buffer) const { return buffer < usedAside_.size() && usedAside_[buffer]; }

  void addBoxing(ir::BoxingOp op) {
    if (failed_) return;
    for (Value v : op.getOuts()) addBuffer(v, BufferKind::kActivation);
    ScheduledTask task;
    task.op = op;
    task.stream = streamOf(op);
    out_->tasks.push_back(task);
    touch(op, task.stream);
  }

  /// Marks of a text may say what is not so.
  void checkPrepared(Operation *op) {
    for (Value v : op->getOperands()) {
      const BufferKind kind = out_->buffers[out_->bufferOf.lookup(v)].kind;
      if (kind == BufferKind::kVariable || kind == BufferKind::kConstant || kind == BufferKind::kPrepared) continue;
      failed_ = true;
      op->emitError("opc.prepared stands at an op that reads ") << ir::tensorName(v) << ", another one in each run";
      return;
    }
  }

  /// Buffers of a task's results: those of operands where the kernel offers that and may do so.
  void placeResults(Operation *op, ArrayRef<std::pair<int, int>> pairs) {
    llvm::SmallDenseSet<uint32_t, 4> taken;
    const bool isPrepared = op->hasAttr(ir::kPreparedAttr);
    if (isPrepared) checkPrepared(op);
    for (auto [o, result] : llvm::enumerate(op->getResults())) {
      bool shared = false;
      for (auto [out, in] : pairs) {
        if (!inPlace_ || out != static_cast<int>(o) || !mayOverwrite(op, out, in, pairs)) continue;
        const uint32_t buffer = out_->bufferOf.lookup(op->getOperand(static_cast<unsigned>(in)));
        if (!taken.insert(buffer).second) continue;
        share(result, buffer);
        shared = true;
        break;
      }
      if (!shared) addBuffer(result, isPrepared ? BufferKind::kPrepared : BufferKind::kActivation);
    }
  }

  void addRegion(ir::FusedOp op) {
    ScheduledTask task;
    task.op = op;
    if (op.getKind() == ir::kUpdatesKind) {
      auto batch = ir::toBatch(op, registry_, device_);
      if (!batch) {
        failed_ = true;
        emitStatus(op, batch.status());
        return;
      }
      task.batch = std::move(*batch);
      task.stream = streamOf(op);
      out_->tasks.push_back(std::move(task));
      touch(op, out_->tasks.back().stream);
      return;
    }
    auto region = ir::toRegion(op, registry_, device_, &knownSteps_);
    if (!region) {
      failed_ = true;
      emitStatus(op, region.status());
      return;
    }
    if (failed_) return;
    task.region = std::move(*region);
    task.stream = streamOf(op);
    placeResults(op, regionInplacePairs(*task.region));
    if (const uint64_t bytes = regionWorkspace(*task.region)) addWorkspace(op, bytes, &task);
    out_->tasks.push_back(std::move(task));
    touch(op, out_->tasks.back().stream);
  }

  void addTask(ir::UserOp op) {
    const user_op::OpDef &def = *op.def();
    ScheduledTask task;
    task.op = op;
    task.stream = streamOf(op);
    const TaskFacts *facts = knownTasks_.of(op, sides_->kernelsOf(op));
    if (!facts) failed_ = true;
    if (failed_) return; // offsets no longer matter, only further errors
    task.kernel = facts->kernel;
    task.hidden = facts->hidden;
    for (size_t i = 0; i < task.hidden.size(); ++i)
      task.hidden[i] = task.hidden[i] && !op.getArgs()[static_cast<unsigned>(i)].getDefiningOp<ir::VariableOp>();
    uint64_t tmp = facts->workspace;
    if (sizes_) tmp = std::max(tmp, sizes_->workspace.lookup(op));
    if (def.isView && !op.getArgs().empty() && op.getOuts().size() == 1) {
      share(op.getOuts()[0], out_->bufferOf.lookup(op.getArgs()[0]));
    } else {
      placeResults(op, sizes_ ? sizes_->inPlace.lookup(op) : facts->inPlace);
    }
    if (tmp > 0) addWorkspace(op, tmp, &task);
    out_->tasks.push_back(task);
    touch(op, task.stream);
  }

  /// For the task that comes next.
  void addWorkspace(Operation *op, uint64_t bytes, ScheduledTask *task) {
    ScheduledBuffer w;
    w.name = ir::opName(op) + "/tmp_buffer";
    w.kind = BufferKind::kWorkspace;
    w.arena = arenaOf(isOnCpu(op));
    w.plan.bytes = bytes;
    w.plan.first = w.plan.last = static_cast<uint32_t>(out_->tasks.size());
    out_->buffers.push_back(std::move(w));
    task->workspace = static_cast<int>(out_->buffers.size() - 1);
  }

  const Registry &registry_;
  DeviceType device_;
  ExecutionSchedule *out_;
  bool inPlace_;
  int64_t microBatches_;
  const SizeFacts *sizes_;
  llvm::DenseMap<Value, uint32_t> lastUse_;
  uint32_t taskCount_ = 0;
  std::optional<DeviceSides> sides_;
  std::vector<bool> usedAside_; // buffers that a stream beside the computation's uses
  KnownTasks knownTasks_;
  ir::KnownSteps knownSteps_;
  bool failed_ = false;
};

} // namespace

LogicalResult planExecution(ModuleOp module, const Registry &registry, DeviceType device, ExecutionSchedule *out,
                            bool inPlace, int64_t microBatches, const SizeFacts *sizes) {
  return Planner(registry, device, out, inPlace, microBatches, sizes).run(module);
}

} // namespace opc
