// The one constant folder.
// SPDX-License-Identifier: Apache-2.0
#include "ConstantFolding.h"
#include "AttrBridge.h"
#include "Passes.h"
#include "RunOp.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <vector>

using namespace mlir;

namespace opc {
namespace {

/// Runs the op's CPU kernel on constant operands; false when that is not possible.
bool run(ir::UserOp op, const Registry &registry, int64_t maxBytes, SmallVectorImpl<DenseElementsAttr> *results) {
  auto instance = ir::toInstance(op, *op.def());
  if (!instance) return false;
  int64_t bytes = 0;
  for (const auto &d : instance->outputDescs()) {
    auto size = tensorBytes(d);
    if (!size || *size > maxBytes - bytes) return false;
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
  options.maxWorkspaceBytes = static_cast<uint64_t>(maxBytes) * 16;
  // A kernel that fails here fails again at run time, where the error can name the step.
  if (!runOp(registry, *instance, &inputs, &outputs, options)) return false;
  for (auto [value, result] : llvm::zip(outputs, op.getOuts()))
    results->push_back(
        ir::denseFromBytes(cast<RankedTensorType>(result.getType()), ArrayRef<char>(value.dptr(), value.bytes())));
  return true;
}

} // namespace

std::optional<SmallVector<DenseElementsAttr>> evaluate(ir::UserOp op, const Registry &registry,
                                                       const FoldLimits &limits) {
  for (Value v : op.getArgs())
    if (!v.getDefiningOp<ir::ConstantOp>()) return std::nullopt;
  if (!op.def() || !isMemoryEffectFree(op)) return std::nullopt;
  for (Value v : op.getOuts()) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type || !type.hasStaticShape() || type.getNumElements() == 0) return std::nullopt;
  }
  SmallVector<DenseElementsAttr> values;
  if (!run(op, registry, limits.maxBytes, &values)) return std::nullopt;
  return values;
}

size_t foldConstants(ModuleOp module, const Registry &registry, const FoldLimits &limits) {
  std::vector<Operation *> dead;
  module.walk([&](ir::UserOp op) {
    const auto values = evaluate(op, registry, limits);
    if (!values) return;
    if (limits.splatsOnly && !llvm::all_of(*values, [](DenseElementsAttr v) { return v.isSplat(); })) return;
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

#define GEN_PASS_DEF_FOLDCONSTANTS
#include "Passes.h.inc"

namespace {
struct FoldConstantsPass : impl::FoldConstantsBase<FoldConstantsPass> {
  using Base::Base;
  void runOnGraph() override {
    folded += static_cast<unsigned>(foldConstants(getOperation(), registryOf(&getContext()), {maxBytes, splatsOnly}));
  }
};
} // namespace

} // namespace opc
