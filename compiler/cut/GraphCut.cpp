// Cutting a graph at tensors.
// SPDX-License-Identifier: Apache-2.0
#include "GraphCut.h"

#include "EmitStatus.h"
#include "Graph.h"
#include "Locations.h"
#include "OpcDialect.h"
#include "Passes.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace opc {
namespace {

/// The op whose outputs a session cuts to what their count says.
constexpr StringLiteral kBoundedOp = "bounded";

/// What there is to keep, found from the roots backwards.
class Pruner {
public:
  explicit Pruner(ModuleOp module) : module_(module), block_(graphBlock(module)) {}

  LogicalResult keepTensors(ArrayRef<std::string> names) {
    llvm::StringMap<Operation *> makers;
    for (Operation &op : block_)
      for (Value v : op.getResults()) makers[ir::tensorName(v)] = &op;
    for (const std::string &name : names) {
      Operation *maker = makers.lookup(name);
      if (!maker) return unknown("tensor", name);
      keep(maker);
    }
    return success();
  }

  template <class Op> LogicalResult keepOps(const char *what, ArrayRef<std::string> names) {
    llvm::StringMap<Operation *> ops;
    for (auto op : block_.getOps<Op>()) ops[ir::opName(op)] = op;
    for (const std::string &name : names) {
      Operation *op = ops.lookup(name);
      if (!op) return unknown(what, name);
      keep(op);
      keepCount(op);
    }
    return success();
  }

  void keepWrites() {
    for (auto op : block_.getOps<ir::UserOp>())
      if (const user_op::OpDef *def = op.def(); def && def->modifyInputs) keep(op);
  }

  /// Erases the others. Outputs follow their tensors where `outputsFollow`.
  void erase(bool outputsFollow) {
    for (auto out : block_.getOps<ir::OutputOp>())
      if (outputsFollow && kept_.contains(out.getIn().getDefiningOp())) kept_.insert(out);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block_)))
      if (!op.hasTrait<OpTrait::IsTerminator>() && !kept_.contains(&op)) op.erase();
  }

private:
  LogicalResult unknown(const std::string &what, const std::string &name) {
    emitFinding(module_.getLoc(), "OPC0005", "the graph has no " + what + " '" + name + "'");
    return failure();
  }

  /// An output of a size that only a run knows is cut by the output that says how much there is.
  void keepCount(Operation *output) {
    auto made = output->getNumOperands() == 1 ? output->getOperand(0).getDefiningOp<ir::UserOp>() : ir::UserOp();
    if (!isa<ir::OutputOp>(output) || !made || made.getOpType() != kBoundedOp) return;
    for (Operation *user : made.getArgs()[1].getUsers())
      if (isa<ir::OutputOp>(user)) keep(user);
  }

  void keep(Operation *root) {
    SmallVector<Operation *> pending = {root};
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      if (!kept_.insert(op).second) continue;
      for (Value v : op->getOperands()) pending.push_back(v.getDefiningOp());
    }
  }

  ModuleOp module_;
  Block &block_;
  llvm::SmallPtrSet<Operation *, 32> kept_;
};

class Cutter {
public:
  explicit Cutter(ModuleOp module) : module_(module), block_(graphBlock(module)), builder_(module) {
    for (Operation &op : block_)
      for (Value v : op.getResults()) tensors_[ir::tensorName(v)] = v;
  }

  LogicalResult feed(const std::vector<std::string> &names) {
    for (const std::string &name : names) {
      Value v = find(name);
      if (!v) return failure();
      if (!isa<ir::InputOp>(v.getDefiningOp())) replaceByInput(v, name);
    }
    return success();
  }

  LogicalResult keepOnly(const std::vector<std::string> &names) {
    llvm::StringSet<> wanted;
    for (const std::string &n : names) wanted.insert(n);
    SmallVector<ir::UserOp> kept;
    for (auto op : block_.getOps<ir::UserOp>())
      if (wanted.contains(ir::opName(op))) kept.push_back(op);
    auto isKept = [&](Operation *op) { return isa<ir::UserOp>(op) && wanted.contains(ir::opName(op)); };
    // What leaves the kept ops: found before uses are rewired.
    SmallVector<Value> leaving;
    for (ir::UserOp op : kept)
      for (Value v : op.getOuts())
        if (v.use_empty() || llvm::any_of(v.getUsers(), [&](Operation *u) { return isa<ir::UserOp>(u) && !isKept(u); }))
          leaving.push_back(v);
    for (ir::UserOp op : kept)
      for (Value v : op.getArgs()) {
        Operation *maker = v.getDefiningOp();
        if (isa<ir::UserOp>(maker) && !isKept(maker)) replaceByInput(v, ir::tensorName(v));
      }
    for (auto out : llvm::make_early_inc_range(block_.getOps<ir::OutputOp>()))
      if (!isKept(out.getIn().getDefiningOp())) out.erase();
    for (Value v : leaving) addOutput(v, ir::tensorName(v));
    kept_.insert(kept.begin(), kept.end());
    return success();
  }

  LogicalResult stopAt(const std::vector<std::pair<std::string, std::string>> &until) {
    SmallVector<std::pair<Value, std::string>> outputs;
    for (const auto &[tensor, name] : until) {
      Value v = find(tensor);
      if (!v) return failure();
      outputs.push_back({v, name});
    }
    for (auto out : llvm::make_early_inc_range(block_.getOps<ir::OutputOp>())) out.erase();
    for (const auto &[v, name] : outputs) addOutput(v, name);
    kept_.clear();
    return success();
  }

  /// Erases what no output needs.
  void prune() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block_)))
      if (isa<ir::UserOp, ir::InputOp, ir::VariableOp, ir::ConstantOp>(&op) && op.use_empty() && !kept_.contains(&op))
        op.erase();
  }

private:
  Value find(const std::string &name) {
    if (Value v = tensors_.lookup(name)) return v;
    emitFinding(module_.getLoc(), "OPC0005", "the graph has no tensor '" + name + "'");
    return {};
  }

  void replaceByInput(Value v, const std::string &name) {
    if (v.use_empty()) return;
    Operation *maker = v.getDefiningOp();
    ir::OpLocation where = ir::readLocation(maker->getLoc());
    where.name = name;
    where.tensors = {name};
    where.conf.clear();
    builder_.setInsertionPoint(maker);
    auto input = ir::InputOp::create(builder_, ir::makeLocation(module_.getContext(), where), v.getType(), name);
    v.replaceAllUsesWith(input.getOut());
    tensors_[name] = input.getOut();
  }

  void addOutput(Value v, const std::string &name) {
    builder_.setInsertionPoint(block_.getTerminator());
    ir::OutputOp::create(builder_, ir::makeLocation(module_.getContext(), {name}), v, name);
  }

  ModuleOp module_;
  Block &block_;
  OpBuilder builder_;
  llvm::StringMap<Value> tensors_;
  llvm::SmallPtrSet<Operation *, 8> kept_; // ops that stay without an output
};

} // namespace

LogicalResult pruneGraph(ModuleOp module, const GraphCut &cut) {
  if (cut.until.empty() && cut.only.empty() && cut.outputs.empty()) return success(); // all outputs are wanted
  Pruner pruner(module);
  std::vector<std::string> tensors = cut.feeds;
  for (const auto &[tensor, name] : cut.until) tensors.push_back(tensor);
  if (failed(pruner.keepTensors(tensors)) || failed(pruner.keepOps<ir::UserOp>("op", cut.only)) ||
      failed(pruner.keepOps<ir::OutputOp>("output", cut.outputs)))
    return failure();
  if (!cut.outputs.empty()) pruner.keepWrites();
  pruner.erase(/*outputsFollow=*/cut.outputs.empty());
  return success();
}

LogicalResult cutGraph(ModuleOp module, const GraphCut &cut) {
  Cutter cutter(module);
  if (failed(cutter.feed(cut.feeds))) return failure();
  if (!cut.only.empty() && failed(cutter.keepOnly(cut.only))) return failure();
  if (!cut.until.empty() && failed(cutter.stopAt(cut.until))) return failure();
  cutter.prune();
  return success();
}

#define GEN_PASS_DEF_PRUNEGRAPH
#define GEN_PASS_DEF_CUTGRAPH
#include "Passes.h.inc"

namespace {
/// What the options that both passes have say.
template <class Pass> GraphCut askedOf(const Pass &pass) {
  GraphCut c;
  c.feeds.assign(pass.feeds.begin(), pass.feeds.end());
  for (const std::string &tensor : pass.until) c.until.push_back({tensor, tensor});
  c.only.assign(pass.only.begin(), pass.only.end());
  return c;
}

struct PruneGraphPass : impl::PruneGraphBase<PruneGraphPass> {
  using Base::Base;
  explicit PruneGraphPass(const GraphCut &cut) : cut(cut) {}
  void runOnGraph() override {
    if (pruneGraph(getOperation(), cut ? *cut : asked()).failed()) signalPassFailure();
  }
  GraphCut asked() const {
    GraphCut c = askedOf(*this);
    c.outputs.assign(outputs.begin(), outputs.end());
    return c;
  }
  friend GraphCut askedOf<PruneGraphPass>(const PruneGraphPass &);
  std::optional<GraphCut> cut; // without one the options say it
};

struct CutGraphPass : impl::CutGraphBase<CutGraphPass> {
  using Base::Base;
  explicit CutGraphPass(const GraphCut &cut) : cut(cut) {}
  void runOnGraph() override {
    if (cutGraph(getOperation(), cut ? *cut : askedOf(*this)).failed()) signalPassFailure();
  }
  friend GraphCut askedOf<CutGraphPass>(const CutGraphPass &);
  std::optional<GraphCut> cut; // without one the options say it
};
} // namespace

std::unique_ptr<Pass> createPruneGraph(const GraphCut &cut) { return std::make_unique<PruneGraphPass>(cut); }
std::unique_ptr<Pass> createCutGraph(const GraphCut &cut) { return std::make_unique<CutGraphPass>(cut); }

} // namespace opc
