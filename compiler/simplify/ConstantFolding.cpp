// Ops whose operands are constants become constants.
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "FoldOp.h"
#include "OpcDialect.h"
#include "Passes.h"
#include "Registry.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>
#include <string>
#include <vector>

using namespace mlir;

namespace opc {
namespace {

/// The results of an op whose operands are all constants, as far as they are known before the run.
std::optional<SmallVector<DenseElementsAttr>> evaluate(ir::UserOp op, const Registry &registry, int64_t maxBytes) {
  std::vector<std::string> operands;
  if (!op.def() || !isMemoryEffectFree(op)) return std::nullopt;
  for (Value v : op.getOuts()) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type || !type.hasStaticShape() || type.getNumElements() == 0) return std::nullopt;
  }
  for (Value v : op.getArgs())
    if (!v.getDefiningOp<ir::ConstantOp>()) return std::nullopt;
  const auto instance = ir::toInstance(op, *op.def());
  if (!instance) return std::nullopt;
  for (Value v : op.getArgs())
    operands.push_back(ir::denseToBytes(cast<DenseElementsAttr>(v.getDefiningOp<ir::ConstantOp>().getValue())));
  const auto results = foldOp(registry, *instance, {operands.begin(), operands.end()}, maxBytes);
  if (!results) return std::nullopt;
  SmallVector<DenseElementsAttr> values;
  for (auto [value, out] : llvm::zip(*results, op.getOuts()))
    values.push_back(
        ir::denseFromBytes(cast<RankedTensorType>(out.getType()), ArrayRef<char>(value.dptr(), value.bytes())));
  return values;
}

/// Replaces what can be evaluated by constants, in order, so that chains fold. `splatsOnly`: by what a graph file can
/// hold, constants whose elements are all equal. Returns the number of ops replaced.
size_t foldConstants(ModuleOp module, const Registry &registry, int64_t maxBytes, bool splatsOnly) {
  std::vector<Operation *> dead;
  module.walk([&](ir::UserOp op) {
    const auto values = evaluate(op, registry, maxBytes);
    if (!values) return;
    if (splatsOnly && !llvm::all_of(*values, [](DenseElementsAttr v) { return v.isSplat(); })) return;
    OpBuilder b(op);
    for (auto [value, result] : llvm::zip(*values, op.getOuts())) {
      auto constant = ir::ConstantOp::create(b, op.getLoc(), result.getType(), value);
      if (Attribute of = op->getAttr(ir::kGradientOfAttr)) constant->setAttr(ir::kGradientOfAttr, of);
      result.replaceAllUsesWith(constant.getOut());
    }
    dead.push_back(op);
  });
  for (Operation *op : dead) op->erase();
  return dead.size();
}

} // namespace

#define GEN_PASS_DEF_FOLDCONSTANTS
#include "Passes.h.inc"

namespace {
struct FoldConstantsPass : impl::FoldConstantsBase<FoldConstantsPass> {
  using Base::Base;
  void runOnGraph() override {
    folded += static_cast<unsigned>(foldConstants(getOperation(), registryOf(&getContext()), maxBytes, splatsOnly));
  }
};
} // namespace

} // namespace opc
