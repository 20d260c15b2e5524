// Shape and dtype inference over the registry's rules.
// SPDX-License-Identifier: Apache-2.0
#include "ShapeInference.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "OpForms.h"
#include "OpcDialect.h"
#include "Passes.h"
#include "TextParts.h"

using namespace mlir;

namespace opc {

namespace {

/// Inputs and variables must have a complete shape.
LogicalResult checkSource(Operation *op, StringRef kind, StringRef name, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.hasStaticShape()) return success();
  const std::string shape = tensor ? "a dimension is not known" : "it has no shape";
  emitStatus(op, Status(StatusCode::kInvalidGraph, "OPC0207", (kind + " '" + name + "': ").str() + shape)
                     .withHelp("give one: --shape " + name.str() + "=2,3" +
                               (kind == "input" ? ", or opc run --input " + name.str() + "=@file.npy" : "")));
  return failure();
}

/// What an op writes must be a variable: anything else would be gone, or changed under its other readers.
LogicalResult checkWrites(ir::UserOp op, const OpInstance &instance) {
  if (Status s = checkModifiers(instance); !s) return emitStatus(op, s), failure();
  if (!instance.def().modifyInputs) return success();
  const std::vector<bool> written = mutableInputs(instance);
  for (size_t i = 0; i < written.size(); ++i) {
    if (!written[i]) continue;
    Value v = op.getArgs()[static_cast<unsigned>(i)];
    const std::string &arg = instance.inputArgs()[i].first;
    if (!v.getDefiningOp<ir::VariableOp>() && mayStayUnwritten(instance, i)) continue;
    auto report = [&](const std::string &message, const std::string &help) {
      emitStatus(op, Status(StatusCode::kInvalidGraph, "OPC0208", instance.def().name + ": " + message).withHelp(help));
      return failure();
    };
    if (!v.getDefiningOp<ir::VariableOp>())
      return report("it writes its input " + arg + ", and " + ir::tensorName(v) + " is no variable",
                    "give it the variable_conf op itself, before any view or cast");
    for (size_t k = 0; k < i; ++k)
      if (written[k] && op.getArgs()[static_cast<unsigned>(k)] == v)
        return report("it writes both " + instance.inputArgs()[k].first + " and " + arg +
                          ", which are the same variable " + ir::tensorName(v),
                      "give each a variable of its own");
  }
  return success();
}

/// Whether an op divides by a deviation to which it adds nothing.
bool lacksEpsilon(const OpInstance &instance) {
  const auto found = instance.conf().attrs.find("epsilon");
  if (found == instance.conf().attrs.end()) return false;
  const auto *single = found->second.get<float>();
  const auto *real = found->second.get<double>();
  return (single && *single == 0) || (real && *real == 0);
}

/// OneFlow's default, which graphs may rely on, is 0: that is said, once.
void warnOfEpsilon(ArrayRef<ir::UserOp> ops) {
  if (ops.empty()) return;
  ir::UserOp op = ops.front();
  const std::string more = ops.size() > 1 ? " (and in " + counted(ops.size() - 1, "more op") + ")" : "";
  emitFinding(op.getLoc(), "OPC0212",
              op.getOpType() + ": epsilon is 0" + more + ": values that are all equal give nan or infinity",
              "give the attribute epsilon; PyTorch's layers have 1e-5", DiagnosticSeverity::Warning);
}

} // namespace

LogicalResult inferShapes(ModuleOp module, const Registry &registry) {
  bool failed = false;
  SmallVector<ir::UserOp> withoutEpsilon;
  MLIRContext *ctx = module.getContext();
  // One instance at a time: at 100,000 ops keeping them all would cost more memory than inferring again. Of ops that
  // are the same but for names the first is inferred.
  ir::ByForm<SmallVector<Type, 2>> known;
  module.walk([&](Operation *op) {
    if (auto in = dyn_cast<ir::InputOp>(op)) {
      if (checkSource(op, "input", in.getName(), in.getOut().getType()).failed()) failed = true;
      return;
    }
    if (auto var = dyn_cast<ir::VariableOp>(op)) {
      if (checkSource(op, "variable", var.getName(), var.getOut().getType()).failed()) failed = true;
      return;
    }
    auto user = dyn_cast<ir::UserOp>(op);
    if (!user) return;
    const user_op::OpDef *def = user.def();
    if (!def) {
      failed = true;
      emitStatus(op, Status(StatusCode::kInvalidGraph, "OPC0201", "unknown op type '" + user.getOpType().str() + "'"));
      return;
    }
    const ir::OpForm form(user, ir::OpForm::kOperands);
    if (const auto *types = known.find(form)) {
      for (auto [result, type] : llvm::zip(user.getOuts(), *types)) result.setType(type);
      return;
    }
    for (Value v : user.getArgs()) {
      auto tensor = dyn_cast<RankedTensorType>(v.getType());
      if (!tensor || !tensor.hasStaticShape()) {
        failed = true; // reported at the op that failed first
        return;
      }
    }
    std::unique_ptr<OpInstance> instance = ir::toInstance(user, *def);
    if (!instance) {
      failed = true;
      emitStatus(op, Status(StatusCode::kInternal, "OPC0901", def->name + ": operands and definition disagree"));
      return;
    }
    if (Status s = instance->infer(); !s.isOk()) {
      failed = true;
      emitStatus(op, s);
      return;
    }
    if (checkWrites(user, *instance).failed()) failed = true;
    const bool isFinding = lacksEpsilon(*instance);
    if (isFinding && user.getRole() == ir::Role::kForward) withoutEpsilon.push_back(user);
    for (auto [i, result] : llvm::enumerate(user.getOuts()))
      result.setType(ir::tensorType(ctx, instance->outputDescs()[i]));
    if (!def->modifyInputs && !isFinding) known.add(form, llvm::to_vector<2>(user.getOuts().getTypes()));
  });
  warnOfEpsilon(withoutEpsilon);
  return success(!failed);
}

#define GEN_PASS_DEF_INFERSHAPES
#include "Passes.h.inc"

namespace {
struct InferShapesPass : impl::InferShapesBase<InferShapesPass> {
  void runOnGraph() override {
    if (inferShapes(getOperation(), registryOf(&getContext())).failed()) signalPassFailure();
  }
};
} // namespace

} // namespace opc
