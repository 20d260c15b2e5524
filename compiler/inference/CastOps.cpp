// Chosen ops in another element type, with casts around them (--cast-ops).
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "ControlOp.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "NearestNames.h"
#include "OpcDialect.h"
#include "Passes.h"
#include "UserOpBuilder.h"
#include "VariableReads.h"

#include "llvm/ADT/MapVector.h"

#include <fnmatch.h>

using namespace mlir;

namespace opc {

namespace {

/// Types between which --cast-ops converts.
bool isCastable(Type type) {
  const auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(tensor.getElementType());
}

constexpr StringLiteral kBitCast = "bit_cast";

/// Whether an op is made for the types around it: its graphs are (if, loop), or it reads bits.
bool isOfItsTypes(ir::UserOp op) {
  const user_op::OpDef *def = op.def();
  return def && (controlKind(def->name) != ControlKind::kNone || op.getOpType() == kBitCast);
}

class OpCaster {
public:
  explicit OpCaster(ModuleOp module)
      : module_(module), builder_(module.getContext()), afterWrites_(readsAfterWrites(graphBlock(module))) {}

  LogicalResult run(ArrayRef<CastRequest> requests, CastStep step) {
    SmallVector<std::pair<ir::UserOp, DataType>> chosen;
    std::vector<bool> isUsed(requests.size());
    std::vector<std::string> names;
    for (Operation &op : graphBlock(module_)) {
      auto user = dyn_cast<ir::UserOp>(&op);
      if (!user) continue;
      names.push_back(ir::opName(user));
      for (auto [i, r] : llvm::enumerate(requests)) {
        // "*" is about what computes numbers.
        if (isOfItsTypes(user) && r.glob.find_first_of("*?[") != std::string::npos) continue;
        if (fnmatch(r.glob.c_str(), names.back().c_str(), 0) != 0 &&
            fnmatch(r.glob.c_str(), user.getOpType().str().c_str(), 0) != 0)
          continue;
        if (!isUsed[i]) isUsed[i] = true;
        chosen.push_back({user, r.type});
        break; // the first one that fits
      }
    }
    bool isGood = true;
    for (auto [i, r] : llvm::enumerate(requests))
      if (step != CastStep::kOps && !isUsed[i] &&
          llvm::none_of(requests.take_front(i),
                        [&, glob = r.glob](const CastRequest &other) { return other.glob == glob; })) {
        emitFinding(module_.getLoc(), "OPC0005", "--cast-ops: no op and no type of an op is called '" + r.glob + "'",
                    didYouMean(r.glob, names));
        isGood = false;
      }
    if (!isGood) return failure();
    if (step == CastStep::kNames) return success();
    for (auto [op, type] : chosen) isGood &= succeeded(cast(op, type));
    for (const auto &[back, computed] : computed_)
      if (back.use_empty()) back.getDefiningOp()->erase();
    return success(isGood);
  }

private:
  /// `after`: the ops behind which `v` is to be read; null for none.
  Value castOf(Value v, Type elementType, const std::string &name, Attribute after = {}) {
    const auto type = llvm::cast<RankedTensorType>(v.getType()).clone(elementType);
    ir::UserOp op = ir::UserOpBuilder(builder_, "cast")
                        .in("in", v)
                        .attr("dtype", AttrValue(ir::dataType(elementType)))
                        .role(role_)
                        .make(ir::renamed(at_, name), "out", type);
    if (after) op->setAttr(ir::kCtrlInAttr, after);
    return op.getOuts()[0];
  }

  LogicalResult cast(ir::UserOp op, DataType type) {
    const Type wanted = ir::elementType(module_.getContext(), type);
    const std::string name = ir::opName(op), suffix = std::string("-") + dataTypeName(type);
    const user_op::OpDef &def = *op.def();
    at_ = op.getLoc();
    role_ = op.getRole();
    if (isOfItsTypes(op)) {
      emitStatus(op, Status(StatusCode::kInvalidGraph, "OPC0208",
                            def.name + ": --cast-ops cannot give it another type: " +
                                (op.getOpType() == kBitCast ? "it reads the bits of its input"
                                                            : "its graphs are made for the types around them"))
                         .withHelp("cast ops that compute values"));
      return failure();
    }
    const std::vector<bool> written = mutableInputs(*ir::toInstance(op, def));
    builder_.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands()) {
      const unsigned i = operand.getOperandNumber();
      const Value v = operand.get();
      if (!isCastable(v.getType()) || elementTypeOf(v) == wanted) continue;
      if (written[i]) {
        emitStatus(
            op, Status(StatusCode::kInvalidGraph, "OPC0208",
                       def.name + ": --cast-ops cannot give it another type: it writes its input " + ir::tensorName(v))
                    .withHelp("cast ops that compute values, not those that update variables"));
        return failure();
      }
      // What a chosen op has computed in this type is not rounded to the graph's in between.
      if (const Value computed = computed_.lookup(v); computed && elementTypeOf(computed) == wanted)
        operand.set(computed);
      else // where the op reads what another one has written, so does the cast
        operand.set(castOf(v, wanted, name + "-in" + std::to_string(i) + suffix,
                           behind(module_.getContext(), afterWrites_.lookup(&operand))));
    }
    return retype(op, name);
  }

  /// The op's results by its own rule; whoever reads them gets the type that they had.
  LogicalResult retype(ir::UserOp op, const std::string &name) {
    std::unique_ptr<OpInstance> instance = ir::toInstance(op, *op.def());
    if (Status s = instance->infer(); !s.isOk()) {
      emitStatus(op, s);
      return failure();
    }
    builder_.setInsertionPointAfter(op);
    for (auto [i, result] : llvm::enumerate(op.getOuts())) {
      const Type before = result.getType(), after = ir::tensorType(module_.getContext(), instance->outputDescs()[i]);
      if (before == after) continue;
      result.setType(after);
      const Value back =
          castOf(result, llvm::cast<RankedTensorType>(before).getElementType(), name + "-out" + std::to_string(i));
      result.replaceAllUsesExcept(back, back.getDefiningOp());
      computed_[back] = result;
    }
    return success();
  }

  static Type elementTypeOf(Value v) { return llvm::cast<RankedTensorType>(v.getType()).getElementType(); }

  ModuleOp module_;
  OpBuilder builder_;
  const llvm::DenseMap<OpOperand *, WritersBefore> afterWrites_;
  llvm::MapVector<Value, Value> computed_; // of casts behind chosen ops: what they cast
  Location at_ = UnknownLoc::get(module_.getContext());
  ir::Role role_ = ir::Role::kForward;
};

} // namespace

#define GEN_PASS_DEF_CASTOPS
#include "Passes.h.inc"

namespace {
struct CastOpsPass : impl::CastOpsBase<CastOpsPass> {
  using Base::Base;
  CastOpsPass(std::vector<CastRequest> requests, CastStep step) : requests(std::move(requests)), step(step) {}
  void runOnGraph() override {
    for (const std::string &text : ops) {
      const auto [glob, type] = StringRef(text).rsplit('=');
      requests.push_back({glob.str(), parseDataType(type.str())});
    }
    if (OpCaster(getOperation()).run(requests, step).failed()) signalPassFailure();
  }
  std::vector<CastRequest> requests; // and what the options say
  CastStep step = CastStep::kAll;
};
} // namespace

std::unique_ptr<Pass> createCastOps(const std::vector<CastRequest> &requests, CastStep step) {
  return std::make_unique<CastOpsPass>(requests, step);
}

} // namespace opc
