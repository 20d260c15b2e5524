// What passes attach to ops: which attribute stands where, and what must hold of it.
// SPDX-License-Identifier: Apache-2.0
#include "OpcDialect.h"
#include "RankModules.h"

#include "mlir/IR/BuiltinOps.h"

#include <algorithm>

using namespace mlir;
using namespace opc::ir;

namespace {

/// Why an attribute may not stand at an op; "" when it may.
using Check = std::string (*)(Operation *, Attribute);

std::string isInteger(Attribute a, unsigned width, int64_t least) {
  auto i = dyn_cast<IntegerAttr>(a);
  if (!i || !i.getType().isInteger(width)) return "is an i" + std::to_string(width);
  return i.getInt() < least ? "is at least " + std::to_string(least) : "";
}

template <class... Allowed> std::string isListOf(Attribute a, const char *what) {
  auto list = dyn_cast<ArrayAttr>(a);
  if (!list || !llvm::all_of(list, [](Attribute x) { return isa<Allowed...>(x); }))
    return std::string("is a list of ") + what;
  return "";
}

/// A list with an entry for each operand, then each result.
template <class... Allowed> std::string isListForTensors(Operation *op, Attribute a, const char *what) {
  if (std::string why = isListOf<Allowed...>(a, what); !why.empty()) return why;
  const size_t tensors = op->getNumOperands() + op->getNumResults(), entries = cast<ArrayAttr>(a).size();
  if (tensors == entries) return "";
  return "has " + std::to_string(entries) + " entries for " + std::to_string(tensors) + " operands and results";
}

std::string isMark(Operation *op, Attribute a) {
  return !isa<UserOp>(op) ? "stands at an opc.user_op" : isa<UnitAttr>(a) ? "" : "has no value";
}

std::string isCtrlIn(Operation *op, Attribute a) {
  return isa<UserOp>(op) ? isListOf<StringAttr>(a, "names of ops") : "stands at an opc.user_op";
}
std::string isPlacements(Operation *op, Attribute a) {
  return isa<ModuleOp>(op) ? isListOf<PlacementAttr>(a, "placements") : "stands at a module";
}
std::string isPlacement(Operation *op, Attribute a) {
  if (std::string why = isInteger(a, 32, 0); !why.empty()) return why;
  auto module = op->getParentOfType<ModuleOp>();
  auto list = module ? module->getAttrOfType<ArrayAttr>(kPlacementsAttr) : ArrayAttr();
  const auto count = list ? static_cast<int64_t>(list.size()) : 1;
  if (cast<IntegerAttr>(a).getInt() < count) return "";
  return "is the index of one of the module's " + std::to_string(count) + " placements";
}
std::string isStates(Operation *op, Attribute a) { return isListForTensors<StateAttr>(op, a, "states"); }
std::string isCopies(Operation *op, Attribute a) {
  if (std::string why = isListOf<ArrayAttr>(a, "lists of states"); !why.empty()) return why;
  for (Attribute one : cast<ArrayAttr>(a))
    if (std::string why = isListOf<StateAttr>(one, "lists of states"); !why.empty()) return why;
  return cast<ArrayAttr>(a).size() == op->getNumResults() ? "" : "has a list for each result";
}
std::string isTransfers(Operation *op, Attribute a) {
  if (std::string why = isListOf<ArrayAttr>(a, "[result, placement, state]"); !why.empty()) return why;
  for (auto entry : cast<ArrayAttr>(a).getAsRange<ArrayAttr>()) {
    if (entry.size() != 3 || !isa<StateAttr>(entry[2])) return "is a list of [result, placement, state]";
    for (Attribute number : {entry[0], entry[1]})
      if (std::string why = isInteger(number, 32, 0); !why.empty()) return why;
    if (cast<IntegerAttr>(entry[0]).getInt() >= op->getNumResults()) return "names a result that is not there";
  }
  return "";
}
std::string isHints(Operation *op, Attribute a) {
  return isListForTensors<StateAttr, UnitAttr, StringAttr>(op, a, "states, of units where none is asked for, of texts");
}
std::string isShardings(Operation *op, Attribute a) {
  if (isa<BoxingOp>(op)) return isListOf<ShardingAttr>(a, "shardings");
  if (std::string why = isListForTensors<ShardingAttr>(op, a, "shardings"); !why.empty()) return why;
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (auto [type, s] : llvm::zip(types, cast<ArrayAttr>(a).getAsRange<ShardingAttr>()))
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        tensor && tensor.getRank() != static_cast<int64_t>(s.getDims().size()))
      return "has the rank of the tensor, " + std::to_string(tensor.getRank());
  return "";
}
std::string isGradientOf(Operation *op, Attribute a) {
  if (!isa<ConstantOp>(op) && roleOf(op) != Role::kBackward) return "stands at an opc.user_op of the role backward";
  auto name = dyn_cast<StringAttr>(a);
  return name && !name.getValue().empty() ? "" : "is the name of an op";
}
std::string isOrder(Operation *op, Attribute a) {
  return isa<BoxingOp>(op) ? isInteger(a, 64, 0) : "stands at an opc.boxing";
}
std::string isLag(Operation *, Attribute a) { return isInteger(a, 64, 0); }
std::string isStride(Operation *op, Attribute a) {
  return isa<UserOp, FusedOp>(op) ? isInteger(a, 64, 1) : "stands at an opc.user_op or opc.fused";
}
std::string isPrepared(Operation *op, Attribute a) {
  return !isa<UserOp, FusedOp>(op) ? "stands at an opc.user_op or opc.fused" : isa<UnitAttr>(a) ? "" : "has no value";
}
std::string isOffsets(Operation *op, Attribute a) {
  auto list = dyn_cast<DenseI64ArrayAttr>(a);
  return list && list.size() == op->getNumResults() ? "" : "is a list with an i64 for each result";
}
std::string isArenaBytes(Operation *op, Attribute a) {
  return isa<ModuleOp>(op) ? isInteger(a, 64, 0) : "stands at a module";
}
std::string isRanks(Operation *op, Attribute a) {
  auto list = dyn_cast<DenseI32ArrayAttr>(a);
  const bool rising = list && !list.empty() && list[0] >= 0 &&
                      std::is_sorted(list.asArrayRef().begin(), list.asArrayRef().end(), std::less_equal<>());
  return rising && isa<ModuleOp>(op) ? "" : "is a rising list of ranks at a module";
}
std::string isJob(Operation *op, Attribute a) {
  return isa<ModuleOp>(op) && isa<JobAttr>(a) ? "" : "is an #opc.job of a module";
}

const std::pair<StringRef, Check> kKnown[] = {
    {kCtrlInAttr, isCtrlIn},
    {kOrderedAttr, isMark},
    {kPlacementsAttr, isPlacements},
    {kPlacementAttr, isPlacement},
    {kStatesAttr, isStates},
    {kShardingAttr, isShardings},
    {kCopiesAttr, isCopies},
    {kTransfersAttr, isTransfers},
    {kHintsAttr, isHints},
    {kGradientOfAttr, isGradientOf},
    {kLocalAttr, isMark},
    {kOrderAttr, isOrder},
    {kLagAttr, isLag},
    {kSourceLagAttr, isLag},
    {kStrideAttr, isStride},
    {kPreparedAttr, isPrepared},
    {kOffsetsAttr, isOffsets},
    {kArenaBytesAttr, isArenaBytes},
    {kJobAttr, isJob},
    {kRanksAttr, isRanks},
};

} // namespace

LogicalResult OpcDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  const auto *known = llvm::find_if(kKnown, [&](const auto &k) { return k.first == attribute.getName(); });
  if (known == std::end(kKnown)) return op->emitError("no pass knows the attribute ") << attribute.getName();
  const std::string why = known->second(op, attribute.getValue());
  if (why.empty()) return success();
  return op->emitError("the attribute ") << attribute.getName() << " " << why << "; it is " << attribute.getValue();
}
