// Casts around ops whose kernels compute half precision in f32, for others to join and to do once.
// SPDX-License-Identifier: Apache-2.0
#include "WidenHalf.h"

#include "AttrBridge.h"
#include "ComputeType.h"
#include "Graph.h"
#include "LibraryFusion.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "OpcDialect.h"
#include "UserOpBuilder.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace opc {
namespace {

bool isHalf(DataType type) { return type == kFloat16 || type == kBFloat16; }

user_op::TensorDesc widened(const user_op::TensorDesc &desc) {
  return isHalf(desc.data_type()) ? user_op::TensorDesc(desc.shape(), kFloat) : desc;
}

class Widener {
public:
  Widener(ModuleOp module, const Registry &registry) : module_(module), registry_(registry), b_(module.getContext()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(graphBlock(module_)))
      if (auto user = dyn_cast<ir::UserOp>(&op))
        if (const auto instance = wide(user)) widen(user, *instance);
  }

private:
  /// The op on tensors of f32; null where it is to stay.
  std::unique_ptr<OpInstance> wide(ir::UserOp op) const {
    const user_op::OpDef *def = op.def();
    const auto hasHalf = [](Value v) { return isHalf(ir::descOf(v.getType()).data_type()); };
    if (!def || !def->pure || op.getDeviceAttr() || llvm::none_of(op.getArgs(), hasHalf)) return nullptr;
    auto instance = ir::toInstance(op, *def);
    if (!instance || writesInputs(*def, instance->conf())) return nullptr;
    const auto kernel = instance->selectKernel(registry_, DeviceType::kCPU);
    if (!kernel || !computesInF32(*instance, **kernel)) return nullptr;
    for (user_op::TensorDesc &desc : instance->inputDescs()) desc = widened(desc);
    if (!instance->infer().isOk()) return nullptr;
    for (auto [v, desc] : llvm::zip_equal(op.getOuts(), instance->outputDescs()))
      if (desc != widened(ir::descOf(v.getType()))) return nullptr; // an attribute says its type
    const auto inF32 = instance->selectKernel(registry_, DeviceType::kCPU);
    return inF32 && computesInF32(*instance, **inF32) ? std::move(instance) : nullptr;
  }

  Value cast(Value v, DataType type, Location at, const std::string &name, ir::Role role) {
    auto from = llvm::cast<RankedTensorType>(v.getType());
    return ir::UserOpBuilder(b_, "cast")
        .in("in", v)
        .attr("dtype", AttrValue(type))
        .role(role)
        .make(ir::renamed(at, name), "out", from.clone(ir::elementType(b_.getContext(), type)))
        .getOuts()[0];
  }

  /// What several ops read is cast once, in front of the first of them.
  Value inF32(Value v, ir::UserOp reader) {
    Value &known = wide_[v];
    if (known) return known;
    b_.setInsertionPoint(reader);
    return known = cast(v, kFloat, reader.getLoc(), ir::tensorName(v) + "@f32", reader.getRole());
  }

  void widen(ir::UserOp op, const OpInstance &instance) {
    for (OpOperand &operand : op.getArgsMutable())
      if (isHalf(ir::descOf(operand.get().getType()).data_type())) operand.set(inF32(operand.get(), op));
    b_.setInsertionPointAfter(op);
    for (auto [result, desc] : llvm::zip_equal(op.getOuts(), instance.outputDescs())) {
      const DataType before = ir::descOf(result.getType()).data_type();
      if (!isHalf(before)) continue;
      const std::string name = ir::tensorName(result) + "@" + dataTypeName(before);
      result.setType(ir::tensorType(b_.getContext(), desc));
      const Value rounded = cast(result, before, op.getLoc(), name, op.getRole());
      result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
    }
  }

  ModuleOp module_;
  const Registry &registry_;
  OpBuilder b_;
  llvm::DenseMap<Value, Value> wide_; // of tensors in half precision: the same in f32
};

} // namespace

void widenHalf(ModuleOp module, const Registry &registry) {
  if (!trains(module)) Widener(module, registry).run();
}

} // namespace opc
