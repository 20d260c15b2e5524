// No-op removal, dead code, and the check that there is something to keep: what simplification has beside folding.
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "MutableInputs.h"
#include "OpcDialect.h"
#include "Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/DenseSet.h"

#include <vector>

using namespace mlir;

namespace opc {
namespace {

/// What `op` shows under another shape; null where it is no view.
Value viewedBy(ir::UserOp op) {
  const user_op::OpDef *def = op ? op.def() : nullptr;
  return def && def->isView && op.getOuts().size() == 1 && !op.getArgs().empty() ? op.getArgs()[0] : Value();
}

/// Variables that an op of the graph writes, and views of them: what they show depends on when they are read.
llvm::DenseSet<Value> writtenValues(ModuleOp module) {
  llvm::DenseSet<Value> written;
  module.walk([&](ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    const auto instance = def && def->modifyInputs ? ir::toInstance(op, *def) : nullptr;
    if (!instance) return;
    for (auto [v, isWritten] : llvm::zip(op.getArgs(), mutableInputs(*instance))) {
      Value variable = v;
      while (const Value shown = viewedBy(variable.getDefiningOp<ir::UserOp>())) variable = shown;
      if (isWritten && variable.getDefiningOp<ir::VariableOp>()) written.insert(variable);
    }
  });
  if (written.empty()) return written;
  module.walk([&](ir::UserOp op) {
    if (const Value shown = viewedBy(op); shown && written.contains(shown)) written.insert(op.getOuts()[0]);
  });
  return written;
}

/// An op that only renames its operand: a view or an identity whose type stays.
size_t removeNoOps(ModuleOp module) {
  std::vector<Operation *> dead;
  const llvm::DenseSet<Value> written = writtenValues(module);
  module.walk([&](ir::UserOp op) {
    if (op.getOuts().size() != 1 || op.getArgs().empty() || op.getArgs()[0].getType() != op.getOuts()[0].getType())
      return;
    const user_op::OpDef *def = op.def();
    if (!def) return;
    if (op->hasAttr(ir::kCtrlInAttr) || op->hasAttr(ir::kOrderedAttr)) return; // it may stand between two writes
    const bool sameTypeCast = def->name == "cast"; // the one op whose no-op form depends on the type alone
    if (!def->isView && !sameTypeCast) return;
    if (sameTypeCast && written.contains(op.getArgs()[0])) return; // its result stays what it was before the write
    op.getOuts()[0].replaceAllUsesWith(op.getArgs()[0]);
    dead.push_back(op);
  });
  for (Operation *op : dead) op->erase();
  return dead.size();
}

/// Backwards over the block: what has no users and no effect goes. Inputs stay: they are the graph's interface.
size_t eliminateDeadOps(ModuleOp module) {
  size_t count = 0;
  for (auto func : module.getOps<func::FuncOp>())
    for (Block &block : func.getBody())
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (op.use_empty() && (isMemoryEffectFree(&op) || isa<ir::VariableOp>(op)) &&
            !op.hasTrait<OpTrait::IsTerminator>()) {
          op.erase();
          ++count;
        }
  return count;
}

/// Equal ops of different roles are one op, and that is of the role of the first; so with what they are gradients of.
void mergeEqualOps(ModuleOp module) {
  llvm::DenseMap<Operation *, std::pair<ir::Role, Attribute>> roles;
  module.walk([&](Operation *op) {
    const Attribute origin = op->getAttr(ir::kGradientOfAttr);
    if (ir::roleOf(op) == ir::Role::kForward && !origin) return;
    roles[op] = {ir::roleOf(op), origin};
    ir::setRole(op, ir::Role::kForward);
    op->removeAttr(ir::kGradientOfAttr);
  });
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(module);
  for (auto func : module.getOps<func::FuncOp>()) eliminateCommonSubExpressions(rewriter, dominance, func);
  module.walk([&](Operation *op) {
    auto it = roles.find(op);
    if (it == roles.end()) return;
    ir::setRole(op, it->second.first);
    if (it->second.second) op->setAttr(ir::kGradientOfAttr, it->second.second);
  });
}

} // namespace

#define GEN_PASS_DEF_REQUIREOUTPUTS
#define GEN_PASS_DEF_REMOVENOOPS
#define GEN_PASS_DEF_MERGEEQUALOPS
#define GEN_PASS_DEF_ELIMINATEDEADOPS
#include "Passes.h.inc"

namespace {

struct RequireOutputsPass : impl::RequireOutputsBase<RequireOutputsPass> {
  void runOnGraph() override {
    ModuleOp module = getOperation();
    for (auto func : module.getOps<func::FuncOp>())
      if (!func.getOps<ir::OutputOp>().empty()) return markAllAnalysesPreserved();
    emitFinding(module.getLoc(), "OPC0111", "the graph has no output",
                "add op { name: \"y\" output_conf { in: \"OP/out_0\" } }");
    signalPassFailure();
  }
};

struct RemoveNoOpsPass : impl::RemoveNoOpsBase<RemoveNoOpsPass> {
  void runOnGraph() override { removed += static_cast<unsigned>(removeNoOps(getOperation())); }
};

struct MergeEqualOpsPass : impl::MergeEqualOpsBase<MergeEqualOpsPass> {
  void runOnGraph() override { mergeEqualOps(getOperation()); }
};

struct EliminateDeadOpsPass : impl::EliminateDeadOpsBase<EliminateDeadOpsPass> {
  void runOnGraph() override { removed += static_cast<unsigned>(eliminateDeadOps(getOperation())); }
};

} // namespace
} // namespace opc
