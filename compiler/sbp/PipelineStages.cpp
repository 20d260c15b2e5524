// Which ranks each op runs on, and by how many micro-batches a stage's backward ops follow its forward ops.
// SPDX-License-Identifier: Apache-2.0
#include "PipelineStages.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphStates.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "NearestNames.h"
#include "RepeatedOps.h"
#include "UserOpBuilder.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/ADT/StringMap.h>

#include <algorithm>
#include <fnmatch.h>

using namespace mlir;

namespace opc {
namespace {

constexpr uint32_t kWorld = 0;

/// The operands that the op writes.
SmallVector<Value> writtenBy(Operation *op) {
  SmallVector<Value> list;
  const user_op::OpDef *def = ir::definitionOf(op);
  if (!def || !def->modifyInputs) return list;
  auto user = cast<ir::UserOp>(op);
  const auto instance = ir::toInstance(user, *def);
  if (!instance) return list;
  const std::vector<bool> written = mutableInputs(*instance);
  for (auto [i, v] : llvm::enumerate(user.getArgs()))
    if (written[i]) list.push_back(v);
  return list;
}

class Placer {
public:
  Placer(ModuleOp module, const MeshRequest &request) : module_(module), request_(request) {}

  LogicalResult run() {
    std::vector<Placement> placements = {Placement::dense(request_.dims)};
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
    if (failed(placeNamed(block))) return failure();
    placeForward(block);
    repeated_ = repeatedOps(block);
    placeOthers(block);
    readFirstResults(block, &repeated_, &place_);
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
  using Stages = llvm::SmallSetVector<uint32_t, 2>;
  static uint32_t theOne(const Stages &stages) { return stages.size() == 1 ? stages.front() : kWorld; }

  /// Ops that several stages name are in the first of these.
  LogicalResult placeNamed(Block &block) {
    std::vector<Named> named(request_.stages.size());
    for (Operation &op : block) {
      const std::string name = ir::opName(&op);
      if (ir::roleOf(&op) == ir::Role::kForward && !isa<ir::OutputOp>(&op)) forward_[name] = &op;
      if (!ir::isTask(&op)) continue;
      for (size_t s = 0; s < named.size(); ++s) {
        const bool isFree = !place_.contains(&op);
        if ((named[s].isMet && !isFree) || !names(request_.stages[s], name)) continue;
        named[s].isMet = true;
        if (!isFree) continue;
        named[s].places = true;
        place_[&op] = static_cast<uint32_t>(s + 1);
      }
    }
    return checkNamed(block, named);
  }

  struct Named { // of a stage
    bool isMet = false, places = false;
  };
  static bool names(const StagePlacement &stage, const std::string &op) {
    return llvm::any_of(
        stage.ops, [&](const std::string &glob) { return glob == op || fnmatch(glob.c_str(), op.c_str(), 0) == 0; });
  }

  /// Of a stage's names some may fit nothing: ops that are written may be none any more.
  LogicalResult checkNamed(Block &block, const std::vector<Named> &named) {
    for (size_t s = 0; s < named.size(); ++s) {
      if (named[s].places) continue;
      const std::vector<std::string> &globs = request_.stages[s].ops;
      const std::string asked = "--stage '" + llvm::join(globs, ",") + "'";
      if (named[s].isMet)
        return emitRequestFinding(module_.getLoc(), "OPC0313",
                                  asked + " has no op: those that it names are in stages before it",
                                  "an op is in the first stage that names it");
      std::vector<std::string> all;
      for (Operation &op : block)
        if (ir::isTask(&op) && all.size() < 20000) all.push_back(ir::opName(&op));
      return emitRequestFinding(module_.getLoc(), "OPC0313", asked + " names no op of the graph",
                                didYouMean(globs[0], all, "opc show GRAPH --what ops lists them"));
    }
    return success();
  }

  /// Forward ops that no stage names: the last stage that they read from. What is computed of variables and constants
  /// alone lives with its readers, as these do.
  void placeForward(Block &block) {
    llvm::DenseSet<Operation *> ofWeights;
    SmallVector<Operation *> ops;
    for (Operation &op : block) {
      if (!ir::isTask(&op)) {
        if (isa<ir::VariableOp, ir::ConstantOp>(&op)) ofWeights.insert(&op);
        continue;
      }
      if (ir::roleOf(&op) != ir::Role::kForward || !isKnown(&op)) continue;
      if (llvm::all_of(op.getOperands(), [&](Value v) { return ofWeights.contains(v.getDefiningOp()); }))
        ofWeights.insert(&op);
      if (place_.contains(&op)) continue;
      uint32_t last = kWorld;
      for (Value v : op.getOperands()) last = std::max(last, place_.lookup(v.getDefiningOp()));
      place_[&op] = last;
      ops.push_back(&op);
    }
    for (Operation *op : llvm::reverse(ops))
      if (place_.lookup(op) == kWorld && ofWeights.contains(op)) place_[op] = theOne(stagesOfForwardReaders(op));
  }

  /// Whether the tasks that the op reads from have been placed.
  bool isKnown(Operation *op) const {
    return llvm::all_of(op->getOperands(),
                        [&](Value v) { return !ir::isTask(v.getDefiningOp()) || place_.contains(v.getDefiningOp()); });
  }

  /// Ops of the backward pass and of updates: where their forward op, or the variable that they write, is.
  void placeOthers(Block &block) {
    for (Operation &op : block)
      if (ir::isTask(&op) && !place_.contains(&op)) place_[&op] = ofOther(&op);
    // What reads an accumulator before anybody in the graph's order has written it.
    for (Operation &op : block) {
      const ir::Role role = ir::roleOf(&op);
      if (!ir::isTask(&op) || place_.lookup(&op) != kWorld) continue;
      if (role != ir::Role::kAccumulation && role != ir::Role::kOptimizer) continue;
      for (Value v : op.getOperands())
        if (v.getDefiningOp<ir::VariableOp>())
          if (const uint32_t home = theOne(stagesOfWriters(v))) place_[&op] = home;
    }
  }

  uint32_t ofOther(Operation *op) {
    const ir::Role role = ir::roleOf(op);
    if (Operation *first = repeated_.lookup(op)) return place_.lookup(first);
    if (auto of = op->getAttrOfType<StringAttr>(ir::kGradientOfAttr); of && role == ir::Role::kBackward)
      if (Operation *origin = forward_.lookup(of.getValue())) {
        if (isa<ir::VariableOp>(origin)) return theOne(stagesOfForwardReaders(origin));
        if (ir::isTask(origin)) return place_.lookup(origin);
      }
    for (Value v : writtenBy(op))
      if (auto stages = stagesOfForwardReaders(v.getDefiningOp()); !stages.empty()) return theOne(stages);
    Stages stages;
    for (Value v : op->getOperands()) {
      Operation *producer = v.getDefiningOp();
      if (!isa<ir::VariableOp>(producer))
        stages.insert(place_.lookup(producer));
      else if (role != ir::Role::kForward)
        stages.insert(theOne(stagesOfForwardReaders(producer)));
    }
    stages.remove(kWorld);
    if (stages.empty()) return kWorld;
    if (role == ir::Role::kForward) return *llvm::max_element(stages);
    // Gradients come from later stages; what they meet there is of the op's own.
    if (role == ir::Role::kBackward) return *llvm::min_element(stages);
    // What needs something of several stages and belongs to none (a norm over all gradients) is everybody's.
    return theOne(stages);
  }

  Stages stagesOfForwardReaders(Operation *op) const {
    Stages stages;
    for (Operation *reader : op->getUsers())
      if (ir::isTask(reader) && ir::roleOf(reader) == ir::Role::kForward) stages.insert(place_.lookup(reader));
    return stages;
  }
  Stages stagesOfWriters(Value variable) const {
    Stages stages;
    for (Operation *op : variable.getUsers())
      if (llvm::is_contained(writtenBy(op), variable)) stages.insert(place_.lookup(op));
    return stages;
  }

  /// Variables and inputs live with their readers.
  uint32_t ofSource(Operation *op) {
    uint32_t found = kWorld;
    bool first = true;
    for (Operation *reader : op->getUsers()) {
      const uint32_t p = isa<ir::OutputOp>(reader) ? kWorld : place_.lookup(reader);
      if (!first && p != found) {
        if (!isa<ir::VariableOp>(op)) return kWorld;
        // A tied variable lives where it is updated.
        const Stages writers = stagesOfWriters(op->getResult(0));
        return writers.empty() ? found : theOne(writers);
      }
      found = p;
      first = false;
    }
    return found;
  }

  ModuleOp module_;
  const MeshRequest &request_;
  llvm::DenseMap<Operation *, uint32_t> place_;
  llvm::StringMap<Operation *> forward_;              // by name, sources too
  llvm::DenseMap<Operation *, Operation *> repeated_; // ops that are computed again -> the ops that computed first
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
      for (const Update &u : updates_) // whose new value the next micro-batch sends
        if (!u.once && llvm::is_contained(op.getOperands(), u.variable)) source = std::max(source, lag_.lookup(u.op));
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
      const SmallVector<Value> written = writtenBy(&op);
      if (written.empty()) continue;
      const bool once = static_cast<bool>(cast<ir::UserOp>(op).input("skip_if"));
      if (once) op.setAttr(ir::kStrideAttr, builder_.getI64IntegerAttr(microBatches_));
      for (Value v : written) updates_.push_back({&op, v, once});
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
      raise(&op, leastOfReaders(&op, own));
      if (!backward) continue;
      backward_.insert(&op);
      // Of stages 1 to n, the i-th's backward ops are n - i micro-batches behind its forward ops; of the world as many
      // as those of the first.
      raise(&op, stages_ - std::max<int64_t>(1, own));
    }
    // An update comes after those that read the old value. Of the next micro-batch they wait for it, unless it comes in
    // the last one alone.
    for (const Update &u : updates_)
      forReaders(u.variable, [&](Operation *reader) {
        raise(u.op, lag_.lookup(reader));
        if (!u.once) raise(reader, lag_.lookup(u.op));
      });
    return changed;
  }

  /// The least lag of the stage's tasks that read from an op, which has no reason to be earlier: what waits for another
  /// stage before anybody needs that would keep back what the other stage waits for. 0 where others read from it, too.
  int64_t leastOfReaders(Operation *op, uint32_t stage) const {
    std::optional<int64_t> least;
    for (Operation *reader : op->getUsers()) {
      auto boxing = dyn_cast<ir::BoxingOp>(reader);
      const bool isOfStage =
          ir::isTask(reader) && placementOf(reader) == stage && (!boxing || boxing.getSource() == boxing.getTarget());
      if (!isOfStage || stage == kWorld) return 0;
      least = std::min(least.value_or(lag_.lookup(reader)), lag_.lookup(reader));
    }
    return least.value_or(0);
  }

  /// All tasks that read a variable, also through views.
  static void forReaders(Value v, llvm::function_ref<void(Operation *)> visit) {
    for (OpOperand &use : v.getUses()) {
      Operation *op = use.getOwner();
      if (!ir::isTask(op)) continue;
      visit(op);
      const user_op::OpDef *def = ir::definitionOf(op);
      if (def && def->isView && use.getOperandNumber() == 0 && op->getNumResults() == 1)
        forReaders(op->getResult(0), visit);
    }
  }

  Block &block_;
  const int64_t stages_, microBatches_;
  Builder builder_;
  llvm::DenseMap<Operation *, int64_t> lag_;
  llvm::DenseSet<Operation *> backward_; // depend on a later stage
  struct Update {
    Operation *op;
    Value variable;
    bool once; // in the last micro-batch alone
  };
  std::vector<Update> updates_;
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
