// Backward ops that compute again what forward ops have computed.
// SPDX-License-Identifier: Apache-2.0
#include "RepeatedOps.h"
#include "OpcDialect.h"
#include "VariableReads.h"

#include <map>
#include <vector>

using namespace mlir;

namespace opc {
namespace {

using Repeated = llvm::DenseMap<Operation *, Operation *>;

Value firstOf(const Repeated &repeated, Value v) {
  Operation *first = repeated.lookup(v.getDefiningOp());
  return first ? first->getResult(cast<OpResult>(v).getResultNumber()) : v;
}

/// All that the op's results depend on, with the forward results in place of repeated ones.
std::vector<const void *> keyOf(ir::UserOp op, const Repeated &repeated) {
  std::vector<const void *> key = {op.getOpTypeAttr().getAsOpaquePointer(), op.getOpAttrs().getAsOpaquePointer(),
                                   op.getInputNames().getAsOpaquePointer(), op.getInputSizesAttr().getAsOpaquePointer(),
                                   op.getOutputNames().getAsOpaquePointer()};
  for (Value v : op.getArgs()) key.push_back(firstOf(repeated, v).getAsOpaquePointer());
  for (Type t : op->getResultTypes()) key.push_back(t.getAsOpaquePointer());
  return key;
}

} // namespace

Repeated repeatedOps(Block &block) {
  Repeated repeated;
  std::map<std::vector<const void *>, Operation *> forward;
  const llvm::DenseMap<OpOperand *, WritersBefore> afterWrites = readsAfterWrites(block);
  for (Operation &op : block) {
    auto user = dyn_cast<ir::UserOp>(&op);
    const user_op::OpDef *def = user ? user.def() : nullptr;
    if (!def || !def->pure || def->modifyInputs || op.getNumResults() == 0) continue;
    const bool isForward = user.getRole() == ir::Role::kForward;
    if (!isForward && (user.getRole() != ir::Role::kBackward || op.hasAttr(ir::kGradientOfAttr))) continue;
    // What reads a variable after its update computes something else.
    if (llvm::any_of(op.getOpOperands(), [&](OpOperand &o) { return afterWrites.contains(&o); })) continue;
    if (isForward)
      forward.try_emplace(keyOf(user, repeated), &op);
    else if (const auto first = forward.find(keyOf(user, repeated)); first != forward.end())
      repeated[&op] = first->second;
  }
  return repeated;
}

void readFirstResults(Block &block, Repeated *repeated, llvm::DenseMap<Operation *, uint32_t> *place) {
  if (repeated->empty()) return;
  for (Operation &op : block) {
    if (!ir::isTask(&op)) continue;
    for (OpOperand &operand : op.getOpOperands())
      if (Operation *maker = operand.get().getDefiningOp();
          repeated->contains(maker) && place->lookup(maker) != place->lookup(&op))
        operand.set(firstOf(*repeated, operand.get()));
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && repeated->erase(&op)) {
      place->erase(&op);
      op.erase();
    }
}

} // namespace opc
