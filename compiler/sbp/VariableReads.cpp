// Which reads of variables see what the step has written.
// SPDX-License-Identifier: Apache-2.0
#include "VariableReads.h"
#include "AttrBridge.h"
#include "Locations.h"
#include "MutableInputs.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace opc {
namespace {

class Reads {
public:
  explicit Reads(Block &block) {
    for (Operation &op : block) {
      auto user = dyn_cast<ir::UserOp>(&op);
      const user_op::OpDef *def = ir::definitionOf(&op);
      if (auto names = op.getAttrOfType<ArrayAttr>(ir::kCtrlInAttr))
        for (Attribute name : names) behind_[cast<StringAttr>(name).getValue()].push_back(&op);
      if (!def || !def->modifyInputs) continue;
      auto instance = ir::toInstance(user, *def);
      if (!instance) continue;
      const std::vector<bool> written = mutableInputs(*instance);
      for (OpOperand &operand : op.getOpOperands())
        if (written[operand.getOperandNumber()] && operand.get().getDefiningOp<ir::VariableOp>())
          writers_[operand.get()].push_back(&op);
    }
  }

  llvm::DenseSet<OpOperand *> run() {
    for (auto &[variable, writers] : writers_) {
      behindWriters_.clear();
      bool isFollowed = false;
      // Most variables are read by nobody but what computes with their old value, and their writers end the step.
      for (Operation *w : writers) isFollowed |= !w->use_empty() || behind_.contains(ir::opName(w));
      if (isFollowed && llvm::any_of(variable.getUses(), [&, list = ArrayRef<Operation *>(writers)](OpOperand &use) {
            return !llvm::is_contained(list, use.getOwner());
          }))
        for (Operation *w : writers) follow(w);
      visit(variable, writers);
    }
    return std::move(found_);
  }

private:
  void follow(Operation *from) {
    SmallVector<Operation *> stack = {from};
    while (!stack.empty()) {
      Operation *op = stack.pop_back_val();
      auto push = [&](Operation *next) {
        if (behindWriters_.insert(next).second) stack.push_back(next);
      };
      for (Operation *next : op->getUsers()) push(next);
      if (auto it = behind_.find(ir::opName(op)); it != behind_.end())
        for (Operation *next : it->second) push(next);
    }
  }

  /// Whether an op reads the value after the write; the operands through which it does are collected.
  bool visit(Value value, ArrayRef<Operation *> writers) {
    bool any = false;
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      if (llvm::is_contained(writers, op)) continue;
      const user_op::OpDef *def = ir::definitionOf(op);
      bool after = isa<ir::OutputOp>(op) || behindWriters_.contains(op);
      if (def && def->isView && use.getOperandNumber() == 0 && op->getNumResults() == 1)
        after |= visit(op->getResult(0), writers);
      if (after) found_.insert(&use);
      any |= after;
    }
    return any;
  }

  llvm::StringMap<SmallVector<Operation *, 2>> behind_; // ops that wait for the op of a name
  llvm::MapVector<Value, SmallVector<Operation *, 1>> writers_;
  llvm::DenseSet<Operation *> behindWriters_;
  llvm::DenseSet<OpOperand *> found_;
};

} // namespace

llvm::DenseSet<OpOperand *> readsAfterWrites(Block &block) { return Reads(block).run(); }

} // namespace opc
