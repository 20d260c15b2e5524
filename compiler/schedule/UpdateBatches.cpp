// Updates of many variables in one task: which wait for which.
// SPDX-License-Identifier: Apache-2.0
#include "AssignDevices.h"
#include "AttrBridge.h"
#include "Graph.h"
#include "MutableInputs.h"
#include "RegionBridge.h"
#include "Schedule.h"
#include "TaskOrders.h"

#include "mlir/IR/IRMapping.h"

#include <queue>

using namespace mlir;

namespace opc {
namespace {

class UpdateBatcher {
public:
  UpdateBatcher(ModuleOp module, const Registry &registry, DeviceType device)
      : module_(module), block_(graphBlock(module)), registry_(registry), device_(device), sides_(block_, device) {}
  ~UpdateBatcher() {
    for (Operation *op : ops_)
      if (!op->getBlock()) op->destroy(); // it is in a batch now
  }

  LogicalResult run() {
    for (Operation &op : block_)
      if (ir::isTask(&op)) ops_.push_back(&op);
    for (Operation *op : ops_) isUpdate_.push_back(isUpdate(op));
    if (llvm::count(isUpdate_, true) < 2) return success();
    behind_ = ops_.back()->getNextNode(); // there is a terminator
    if (failed(describe())) return failure();
    // Where buffers lie is another question than how many are alive: what waits may stand in the way of others.
    const uint64_t peak = allowed_;
    std::optional<uint64_t> before;
    for (const double part : {1.0, 0.9, 0.7}) {
      allowed_ = static_cast<uint64_t>(static_cast<double>(peak) * part);
      choose();
      if (batches_.empty()) return success();
      if (!before) before = arenaBytes();
      for (const std::vector<uint32_t> &batch : batches_) fuse(batch);
      const bool fits = before && arenaBytes().value_or(UINT64_MAX) <= *before;
      if (!fits) restore();
      if (fits || !before) return success();
    }
    return success();
  }

private:
  bool isUpdate(Operation *op) const {
    if (device_ == DeviceType::kGPU && isOnCpu(op)) return false; // beside the device updates are few
    auto user = dyn_cast<ir::UserOp>(op);
    const user_op::OpDef *def = user ? user.def() : nullptr;
    if (!def || !def->modifyInputs || op->getNumResults() != 0) return false;
    const std::unique_ptr<OpInstance> instance = ir::toInstance(user, *def);
    if (!instance) return false;
    const std::vector<bool> written = mutableInputs(*instance);
    for (size_t i = 0; i < written.size(); ++i) // what the kernel is not to see
      if (written[i] && mayStayUnwritten(*instance, i) &&
          !user.getArgs()[static_cast<unsigned>(i)].getDefiningOp<ir::VariableOp>())
        return false;
    const auto kernel = instance->selectKernel(registry_, device_);
    return kernel && mayJoinBatch(*instance, **kernel, device_);
  }

  OverwritePairs overwrites(Operation *op) const {
    if (auto fused = dyn_cast<ir::FusedOp>(op)) {
      const auto region = ir::toRegion(fused, registry_, device_);
      return region ? regionInplacePairs(**region) : OverwritePairs();
    }
    auto user = dyn_cast<ir::UserOp>(op);
    const user_op::OpDef *def = user ? user.def() : nullptr;
    const std::unique_ptr<OpInstance> instance = def ? ir::toInstance(user, *def) : nullptr;
    if (!instance) return {};
    const auto kernel = instance->selectKernel(registry_, sides_.kernelsOf(op));
    return kernel ? instance->inplacePairs(**kernel) : OverwritePairs();
  }

  LogicalResult describe() {
    const auto orders = taskOrders(ops_);
    if (!orders) return failure();
    graph_ = makeTaskGraph(ops_, *orders, [&](uint32_t t) { return overwrites(ops_[t]); });
    std::vector<uint32_t> order(ops_.size());
    for (uint32_t t = 0; t < order.size(); ++t) order[t] = t;
    allowed_ = livePeak(graph_, order, &profile_).bytes;
    lastRead_.assign(graph_.buffers.size(), 0);
    for (uint32_t t = 0; t < ops_.size(); ++t)
      for (uint32_t b : graph_.tasks[t].reads) lastRead_[b] = t;
    waiters_.assign(graph_.buffers.size(), 0);
    mark_.assign(ops_.size(), 0);
    return success();
  }

  void choose() {
    batches_.clear();
    arrived_.clear();
    most_ = 0;
    for (uint32_t t = 0; t < ops_.size(); ++t) {
      if (mayNotFollow(t)) close();
      most_ = std::max(most_, profile_[t]);
      endUntil(t);
      if (isUpdate_[t]) add(t);
    }
    close();
  }

  /// Of the graph as it is now; nothing where it cannot be planned, which another phase reports.
  std::optional<uint64_t> arenaBytes() {
    ScopedDiagnosticHandler quiet(module_.getContext(), [](Diagnostic &) { return success(); });
    ExecutionSchedule execution;
    if (planExecution(module_, registry_, device_, &execution).failed()) return std::nullopt;
    return execution.memory.arenaBytes;
  }

  /// Whether `t` cannot run before the updates that wait.
  bool mayNotFollow(uint32_t t) {
    bool follows = mark_[t] == generation_;
    for (const auto &[made, read] : graph_.tasks[t].overwrites) follows |= waiters_[read] > 0;
    for (Value v : ops_[t]->getOperands())
      if (isFromElsewhere(v, ops_[t]))
        follows |= arrived_.insert(v.getDefiningOp()).second; // here the stream waits, and could do those updates
    if (members_.empty()) return false;
    return follows || (isUpdate_[t] && !isAlike(ops_[t], ops_[members_.back()]));
  }
  /// Whether a task of the computation's stream reads what another stream makes.
  bool isFromElsewhere(Value v, Operation *reader) const {
    constexpr auto kHere = static_cast<uint32_t>(DeviceStream::kDevice);
    Operation *maker = v.getDefiningOp();
    return maker && ir::isTask(maker) && sides_.streamOf(reader) == kHere && sides_.streamOf(maker) != kHere;
  }
  static bool isAlike(Operation *a, Operation *b) {
    return a->getAttr(ir::kLagAttr) == b->getAttr(ir::kLagAttr) &&
           a->getAttr(ir::kStrideAttr) == b->getAttr(ir::kStrideAttr) &&
           cast<ir::UserOp>(a).getDeviceAttr() == cast<ir::UserOp>(b).getDeviceAttr();
  }

  /// What was read for the last time before `t`, and an update that waits will read.
  void endUntil(uint32_t t) {
    while (!ends_.empty() && ends_.top().first < t) {
      const uint32_t b = ends_.top().second;
      ends_.pop();
      if (waiters_[b] > 0 && held_.insert(b).second) heldBytes_ += graph_.buffers[b].bytes;
    }
  }

  /// Another update. Those that wait come here with it, if what they read may stay alive until now.
  void add(uint32_t t) {
    while (!members_.empty() && most_ + heldBytes_ > allowed_) leave(largest());
    if (members_.size() == kMaxBatchSteps) close();
    members_.push_back(t);
    most_ = 0;
    for (uint32_t b : graph_.tasks[t].reads)
      if (!graph_.buffers[b].keep && waiters_[b]++ == 0) ends_.emplace(lastRead_[b], b);
    for (uint32_t next : graph_.tasks[t].after) mark_[next] = generation_;
  }

  /// The one that keeps most alive.
  size_t largest() const {
    size_t best = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < members_.size(); ++i) {
      uint64_t bytes = 0;
      for (uint32_t b : graph_.tasks[members_[i]].reads)
        if (waiters_[b] == 1 && held_.count(b)) bytes += graph_.buffers[b].bytes;
      if (bytes <= most) continue;
      most = bytes;
      best = i;
    }
    return best;
  }
  void leave(size_t member) {
    for (uint32_t b : graph_.tasks[members_[member]].reads)
      if (!graph_.buffers[b].keep && --waiters_[b] == 0 && held_.erase(b)) heldBytes_ -= graph_.buffers[b].bytes;
    members_.erase(members_.begin() + static_cast<ptrdiff_t>(member));
  }

  void close() {
    if (members_.size() > 1) batches_.push_back(members_);
    while (!members_.empty()) leave(members_.size() - 1);
    ends_ = {};
    ++generation_;
  }

  void fuse(const std::vector<uint32_t> &batch) {
    llvm::SetVector<Value> in;
    for (uint32_t t : batch) in.insert(ops_[t]->operand_begin(), ops_[t]->operand_end());
    Operation *last = ops_[batch.back()];
    OpBuilder b(last);
    auto fused = ir::FusedOp::create(b, last->getLoc(), TypeRange(), in.getArrayRef(), ir::kUpdatesKind,
                                     cast<ir::UserOp>(last).getDeviceAttr());
    for (StringRef name : {StringRef(ir::kLagAttr), StringRef(ir::kStrideAttr)})
      if (Attribute a = last->getAttr(name)) fused->setAttr(name, a);
    Block &body = fused.getBody().emplaceBlock();
    IRMapping values;
    for (Value v : in) values.map(v, body.addArgument(v.getType(), v.getLoc()));
    b.setInsertionPointToEnd(&body);
    for (uint32_t t : batch) {
      Operation *copy = b.clone(*ops_[t], values);
      for (NamedAttribute a : llvm::to_vector(copy->getDiscardableAttrs()))
        if (a.getName() != ir::kShardingAttr) copy->removeAttr(a.getName());
      ops_[t]->remove();
    }
    ir::YieldOp::create(b, fused.getLoc(), ValueRange());
    fused_.push_back(fused);
  }
  /// The ops as they were.
  void restore() {
    for (ir::FusedOp op : fused_) op.erase();
    fused_.clear();
    Operation *next = behind_;
    for (Operation *op : llvm::reverse(ops_)) {
      if (!op->getBlock()) block_.getOperations().insert(next->getIterator(), op);
      next = op;
    }
  }

  ModuleOp module_;
  Block &block_;
  const Registry &registry_;
  const DeviceType device_;
  const DeviceSides sides_;
  std::vector<Operation *> ops_; // in the order of execution
  Operation *behind_ = nullptr;  // the last of them
  std::vector<bool> isUpdate_;
  TaskGraph graph_;
  std::vector<uint64_t> profile_; // by op: bytes that are alive while it runs
  uint64_t allowed_ = 0;
  std::vector<uint32_t> lastRead_; // by buffer
  llvm::DenseSet<Operation *> arrived_;

  std::vector<uint32_t> members_; // updates that wait, in order
  std::vector<uint32_t> waiters_; // by buffer: how many of them read it
  std::vector<uint32_t> mark_;    // by op: the generation of updates that it must follow
  uint32_t generation_ = 1;
  using End = std::pair<uint32_t, uint32_t>; // place of the last reader, buffer
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  llvm::DenseSet<uint32_t> held_; // buffers that are alive for those updates alone
  uint64_t heldBytes_ = 0;
  uint64_t most_ = 0; // alive without them since the last one came
  std::vector<std::vector<uint32_t>> batches_;
  std::vector<ir::FusedOp> fused_; // made of them
};

} // namespace

LogicalResult batchUpdates(ModuleOp module, const Registry &registry, DeviceType device) {
  return UpdateBatcher(module, registry, device).run();
}

} // namespace opc
