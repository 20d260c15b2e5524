// Which ranks each op runs on, and by how many micro-batches a stage's backward ops follow its forward ops.
// SPDX-License-Identifier: Apache-2.0
#include "PipelineStages.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphStates.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "NearestNames.h"
#include "UserOpBuilder.h"

#include <llvm/ADT/StringExtras.h>

#include <algorithm>
#include <fnmatch.h>

using namespace mlir;

namespace opc {
namespace {

constexpr uint32_t kWorld = 0;

class Placer {
public:
  Placer(ModuleOp module, const MeshRequest &request) : module_(module), request_(request) {}

  LogicalResult run() {
    std::vector<Placement> placements = {Placement::dense(request_.dims)};
    std::vector<bool> named(request_.stages.size(), false);
    for (const StagePlacement &s : request_.stages) {
      std::vector<int64_t> sorted = s.placement.ranks;
      std::sort(sorted.begin(), sorted.end());
      if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        return emitRequestFinding(module_.getLoc(), "OPC0313",
                                  "--stage '" + llvm::join(s.ops, ",") + "' names rank " +
                                      Twine(*std::adjacent_find(sorted.begin(), sorted.end())) + " twice");
      placements.push_back(s.placement);
    }
    writePlacements(module_, placements);
    if (request_.stages.empty()) return success();
    Block &block = graphBlock(module_);
    for (Operation &op : block)
      if (ir::isTask(&op)) place_[&op] = ofTask(&op, &named);
    for (size_t s = 0; s < named.size(); ++s)
      if (!named[s]) {
        std::vector<std::string> names;
        for (Operation &op : block)
          if (ir::isTask(&op) && names.size() < 20000) names.push_back(ir::opName(&op));
        return emitRequestFinding(module_.getLoc(), "OPC0313",
                                  "--stage '" + llvm::join(request_.stages[s].ops, ",") + "' names no op of the graph",
                                  didYouMean(request_.stages[s].ops[0], names, "opc show GRAPH --what ops lists them"));
      }
    Builder b(module_.getContext());
    for (Operation &op : block) {
      const uint32_t p = isa<ir::OutputOp>(op) ? place_.lookup(op.getOperand(0).getDefiningOp())
                         : ir::isTask(&op)     ? place_[&op]
                                               : ofSource(&op);
      if (!ir::isTask(&op)) place_[&op] = p;
      if (p) op.setAttr(ir::kPlacementAttr, b.getI32IntegerAttr(static_cast<int32_t>(p)));
    }
    return success();
  }

private:
  /// The stage that names the op; else the last one of those that it reads from.
  uint32_t ofTask(Operation *op, std::vector<bool> *named) {
    const std::string name = ir::opName(op);
    for (size_t s = 0; s < request_.stages.size(); ++s)
      for (const std::string &glob : request_.stages[s].ops)
        if (glob == name || fnmatch(glob.c_str(), name.c_str(), 0) == 0) {
          (*named)[s] = true;
          return static_cast<uint32_t>(s + 1);
        }
    uint32_t last = kWorld;
    bool mixed = false;
    for (Value v : op->getOperands()) {
      const uint32_t p = place_.lookup(v.getDefiningOp());
      mixed |= last != kWorld && p != kWorld && p != last;
      last = std::max(last, p);
    }
    // What needs something of several stages and belongs to none (a norm over all gradients) is everybody's.
    return mixed ? kWorld : last;
  }

  /// Variables and inputs live with their readers.
  uint32_t ofSource(Operation *op) {
    uint32_t found = kWorld;
    bool first = true;
    for (Operation *reader : op->getUsers()) {
      const uint32_t p = isa<ir::OutputOp>(reader) ? kWorld : place_.lookup(reader);
      if (!first && p != found) {
        // A tied variable lives where it is updated.
        return isa<ir::VariableOp>(op) ? writerOf(op, found) : kWorld;
      }
      found = p;
      first = false;
    }
    return found;
  }
  uint32_t writerOf(Operation *op, uint32_t otherwise) {
    Operation *last = nullptr;
    for (Operation *reader : op->getUsers())
      if (reader->getNumOperands() && reader->getOperand(0) == op->getResult(0) &&
          (!last || last->isBeforeInBlock(reader)))
        last = reader;
    return last ? place_.lookup(last) : otherwise;
  }

  ModuleOp module_;
  const MeshRequest &request_;
  llvm::DenseMap<Operation *, uint32_t> place_;
};

} // namespace

LogicalResult placeOps(ModuleOp module, const MeshRequest &request) { return Placer(module, request).run(); }

namespace {

/// The steps of one round of gradient accumulation; 0 when the graph has none. What adds up gradients counts them
/// modulo their number; graphs written before opc 0.2 say that this op is of the optimizer.
int64_t accumulatedSteps(Block &block) {
  for (Operation &op : block)
    if (auto user = dyn_cast<ir::UserOp>(op);
        user && user.getOpType() == "scalar_fmod" &&
        (user.getRole() == ir::Role::kAccumulation || user.getRole() == ir::Role::kOptimizer))
      return user.attribute<int64_t>("int_operand", 0);
  return 0;
}

class Pace {
public:
  Pace(ModuleOp module, const MeshRequest &request)
      : block_(graphBlock(module)), stages_(static_cast<int64_t>(request.stages.size())),
        microBatches_(request.microBatches), builder_(module.getContext()) {}

  void run() {
    findUpdates();
    // Readers of what is updated in every micro-batch keep the pace of the update; that may make others wait in turn.
    while (pass()) {
    }
    for (Operation &op : block_) {
      set(&op, ir::kLagAttr, lag_.lookup(&op));
      auto boxing = dyn_cast<ir::BoxingOp>(op);
      if (!boxing || boxing.getSource() == boxing.getTarget()) continue;
      int64_t source = 0;
      for (Value v : op.getOperands()) source = std::max(source, lag_.lookup(v.getDefiningOp()));
      set(&op, ir::kSourceLagAttr, source);
    }
  }

private:
  void set(Operation *op, StringRef name, int64_t value) {
    if (value) op->setAttr(name, builder_.getI64IntegerAttr(value));
  }

  /// Updates that are skipped in all micro-batches but the last run there alone.
  void findUpdates() {
    for (Operation &op : block_) {
      auto user = dyn_cast<ir::UserOp>(op);
      const user_op::OpDef *def = ir::definitionOf(&op);
      if (!def || !def->modifyInputs) continue;
      const std::vector<bool> written = mutableInputs(*ir::toInstance(user, *def));
      if (user.input("skip_if")) {
        op.setAttr(ir::kStrideAttr, builder_.getI64IntegerAttr(microBatches_));
        continue;
      }
      for (size_t i = 0; i < written.size(); ++i)
        if (written[i]) updates_.push_back({&op, user.getArgs()[static_cast<unsigned>(i)]});
    }
  }

  bool pass() {
    bool changed = false;
    auto raise = [&](Operation *op, int64_t lag) {
      int64_t &own = lag_[op];
      if (lag <= own) return;
      own = lag;
      changed = true;
    };
    for (Operation &op : block_) {
      if (!ir::isTask(&op)) continue;
      auto boxing = dyn_cast<ir::BoxingOp>(op);
      const uint32_t own = boxing ? static_cast<uint32_t>(boxing.getTarget()) : placementOf(&op);
      bool backward = backward_.contains(&op);
      for (Value v : op.getOperands()) {
        Operation *producer = v.getDefiningOp();
        const uint32_t from = boxing ? static_cast<uint32_t>(boxing.getSource()) : placementOf(producer);
        backward |= backward_.contains(producer) || (own == kWorld ? from != kWorld : from > own);
        if (from == own || own == kWorld || from == kWorld) raise(&op, lag_.lookup(producer));
      }
      if (!backward) continue;
      backward_.insert(&op);
      // Of stages 1 to n, the i-th's backward ops are n - i micro-batches behind its forward ops; of the world as many
      // as those of the first.
      raise(&op, stages_ - std::max<int64_t>(1, own));
    }
    for (const auto &[update, variable] : updates_)
      for (Operation *reader : variable.getUsers())
        if (ir::isTask(reader)) raise(reader, lag_.lookup(update));
    return changed;
  }

  Block &block_;
  const int64_t stages_, microBatches_;
  Builder builder_;
  llvm::DenseMap<Operation *, int64_t> lag_;
  llvm::DenseSet<Operation *> backward_;               // depend on a later stage
  std::vector<std::pair<Operation *, Value>> updates_; // in every micro-batch
};

} // namespace

LogicalResult assignLags(ModuleOp module, const MeshRequest &request) {
  if (request.microBatches <= 1) return success();
  const int64_t accumulated = accumulatedSteps(graphBlock(module));
  if (accumulated && accumulated != request.microBatches)
    return emitFinding(module.getLoc(), "OPC0314",
                       "--micro-batches " + Twine(request.microBatches) + ", and the graph adds up the gradients of " +
                           Twine(accumulated) + " steps",
                       "--micro-batches " + Twine(accumulated) + ", or opc grad --accumulate " +
                           Twine(request.microBatches));
  Pace(module, request).run();
  return success();
}

} // namespace opc
