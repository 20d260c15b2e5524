// Simplification: constant folding, no-op removal, common subexpressions, dead code.
// SPDX-License-Identifier: Apache-2.0
#include "Simplify.h"
#include "AttrBridge.h"
#include "Locations.h"
#include "OpcDialect.h"
#include "RunOp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/CSE.h"

#include <vector>

using namespace mlir;

namespace opc {
namespace {

/// Runs the op's CPU kernel on constant operands; false when that is not possible.
bool evaluate(ir::UserOp op, const user_op::OpDef &def, const Registry &registry,
              SmallVectorImpl<DenseElementsAttr> *results) {
  auto instance = ir::toInstance(op, def);
  if (!instance) return false;
  int64_t bytes = 0;
  for (const auto &d : instance->outputDescs()) {
    auto size = tensorBytes(d);
    if (!size || *size > kMaxFoldedBytes - bytes) return false;
    bytes += *size;
  }
  std::vector<OpTensor> inputs, outputs;
  for (auto [v, desc] : llvm::zip(op.getArgs(), instance->inputDescs())) {
    auto constant = v.getDefiningOp<ir::ConstantOp>();
    const std::string raw = ir::denseToBytes(cast<DenseElementsAttr>(constant.getValue()));
    std::memcpy(inputs.emplace_back(desc).data(), raw.data(), raw.size());
  }
  RunOpOptions options;
  options.constant.assign(inputs.size(), true);
  options.maxWorkspaceBytes = static_cast<uint64_t>(kMaxFoldedBytes) * 16;
  // A kernel that fails here fails again at run time, where the error can name the step.
  if (!runOp(registry, *instance, &inputs, &outputs, options)) return false;
  for (auto [value, result] : llvm::zip(outputs, op.getOuts()))
    results->push_back(
        ir::denseFromBytes(cast<RankedTensorType>(result.getType()), ArrayRef<char>(value.dptr(), value.bytes())));
  return true;
}

void foldConstants(ModuleOp module, const Registry &registry, const SimplifyOptions &options = {}) {
  std::vector<Operation *> dead;
  module.walk([&](ir::UserOp op) {
    for (Value v : op.getArgs())
      if (!v.getDefiningOp<ir::ConstantOp>()) return;
    const user_op::OpDef *def = op.def();
    if (!def || !isMemoryEffectFree(op)) return;
    for (Value v : op.getOuts()) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (!type || !type.hasStaticShape() || type.getNumElements() == 0) return;
    }
    SmallVector<DenseElementsAttr> values;
    if (!evaluate(op, *def, registry, &values)) return;
    if (options.splatConstantsOnly && !llvm::all_of(values, [](DenseElementsAttr v) { return v.isSplat(); })) return;
    OpBuilder b(op);
    for (auto [value, result] : llvm::zip(values, op.getOuts())) {
      auto constant = ir::ConstantOp::create(b, op.getLoc(), result.getType(), value, op.getRole());
      result.replaceAllUsesWith(constant.getOut());
    }
    dead.push_back(op);
  });
  for (Operation *op : dead) op->erase();
}

/// An op that only renames its operand: a view or an identity whose type stays.
void removeNoOps(ModuleOp module, const Registry &registry) {
  std::vector<Operation *> dead;
  module.walk([&](ir::UserOp op) {
    if (op.getOuts().size() != 1 || op.getArgs().empty() || op.getArgs()[0].getType() != op.getOuts()[0].getType())
      return;
    const user_op::OpDef *def = op.def();
    if (!def) return;
    if (op->hasAttr(ir::kCtrlInAttr) || op->hasAttr(ir::kOrderedAttr)) return; // it may stand between two writes
    const bool sameTypeCast = def->name == "cast"; // the one op whose no-op form depends on the type alone
    if (!def->isView && !sameTypeCast) return;
    op.getOuts()[0].replaceAllUsesWith(op.getArgs()[0]);
    dead.push_back(op);
  });
  for (Operation *op : dead) op->erase();
}

/// Backwards over the block: what has no users and no effect goes. Inputs stay: they are the graph's interface.
void eliminateDeadOps(ModuleOp module) {
  for (auto func : module.getOps<func::FuncOp>())
    for (Block &block : func.getBody())
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (op.use_empty() && (isMemoryEffectFree(&op) || isa<ir::VariableOp>(op)) &&
            !op.hasTrait<OpTrait::IsTerminator>())
          op.erase();
}

/// Equal ops of different roles are one op, and that is of the role of the first.
void mergeEqualOps(ModuleOp module) {
  llvm::DenseMap<Operation *, ir::Role> roles;
  module.walk([&](Operation *op) {
    if (ir::roleOf(op) == ir::Role::kForward) return;
    roles[op] = ir::roleOf(op);
    ir::setRole(op, ir::Role::kForward);
  });
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(module);
  for (auto func : module.getOps<func::FuncOp>()) eliminateCommonSubExpressions(rewriter, dominance, func);
  module.walk([&](Operation *op) {
    if (auto it = roles.find(op); it != roles.end()) ir::setRole(op, it->second);
  });
}

template <class F> struct FunctionPass : PassWrapper<FunctionPass<F>, OperationPass<ModuleOp>> {
  FunctionPass(StringRef argument, StringRef description, F f)
      : argument(argument), description(description), f(std::move(f)) {}
  StringRef getArgument() const override { return argument; }
  StringRef getDescription() const override { return description; }
  void runOnOperation() override { f(this->getOperation()); }
  std::string argument, description;
  F f;
};
template <class F> std::unique_ptr<Pass> makePass(StringRef argument, StringRef description, F f) {
  return std::make_unique<FunctionPass<F>>(argument, description, std::move(f));
}

} // namespace

LogicalResult simplify(ModuleOp module, const Registry &registry, const SimplifyOptions &options) {
  foldConstants(module, registry, options);
  removeNoOps(module, registry);
  // Removing a no-op can make two ops equal; merging two ops makes no new no-op.
  mergeEqualOps(module);
  eliminateDeadOps(module);
  return success();
}

std::unique_ptr<Pass> createFoldConstantsPass(const Registry &registry) {
  return makePass("opc-fold-constants", "Evaluates ops whose operands are constants",
                  [&registry](ModuleOp m) { foldConstants(m, registry); });
}
std::unique_ptr<Pass> createRemoveNoOpsPass(const Registry &registry) {
  return makePass("opc-remove-no-ops", "Removes views and casts that keep the type",
                  [&registry](ModuleOp m) { removeNoOps(m, registry); });
}
std::unique_ptr<Pass> createEliminateDeadOpsPass() {
  return makePass("opc-eliminate-dead-ops", "Removes ops whose results nobody reads",
                  [](ModuleOp m) { eliminateDeadOps(m); });
}

} // namespace opc
