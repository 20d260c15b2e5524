// Which reads of variables see what the step has written.
// SPDX-License-Identifier: Apache-2.0
#include "VariableReads.h"
#include "AttrBridge.h"
#include "Locations.h"
#include "MutableInputs.h"

#include "llvm/ADT/DenseSet.h"
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

  llvm::DenseMap<OpOperand *, WritersBefore> run() {
    for (auto &[variable, writers] : writers_) {
      behindWriters_.assign(writers.size(), {});
      // Most variables are read by nobody but what computes with their old value, and their writers end the step.
      if (llvm::any_of(variable.getUses(), [&, list = ArrayRef<Operation *>(writers)](OpOperand &use) {
            return !llvm::is_contained(list, use.getOwner());
          }))
        for (size_t w = 0; w < writers.size(); ++w) follow(writers[w], &behindWriters_[w]);
      visit(variable, writers);
    }
    return std::move(found_);
  }

private:
  void follow(Operation *from, llvm::DenseSet<Operation *> *followers) {
    SmallVector<Operation *> stack = {from};
    while (!stack.empty()) {
      Operation *op = stack.pop_back_val();
      auto push = [&](Operation *next) {
        if (followers->insert(next).second) stack.push_back(next);
      };
      for (Operation *next : op->getUsers()) push(next);
      if (auto it = behind_.find(ir::opName(op)); it != behind_.end())
        for (Operation *next : it->second) push(next);
    }
  }

  /// The writers after which ops read the value; the operands through which they do are collected.
  WritersBefore visit(Value value, ArrayRef<Operation *> writers) {
    WritersBefore all;
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      if (llvm::is_contained(writers, op)) continue;
      const user_op::OpDef *def = ir::definitionOf(op);
      WritersBefore before;
      if (def && def->isView && use.getOperandNumber() == 0 && op->getNumResults() == 1)
        before = visit(op->getResult(0), writers);
      for (auto [w, writer] : llvm::enumerate(writers))
        if ((isa<ir::OutputOp>(op) || behindWriters_[w].contains(op)) && !llvm::is_contained(before, writer))
          before.push_back(writer);
      for (Operation *writer : before)
        if (!llvm::is_contained(all, writer)) all.push_back(writer);
      if (!before.empty()) found_[&use] = std::move(before);
    }
    return all;
  }

  llvm::StringMap<SmallVector<Operation *, 2>> behind_; // ops that wait for the op of a name
  llvm::MapVector<Value, SmallVector<Operation *, 1>> writers_;
  std::vector<llvm::DenseSet<Operation *>> behindWriters_; // of the variable at hand, by writer
  llvm::DenseMap<OpOperand *, WritersBefore> found_;
};

} // namespace

llvm::DenseMap<OpOperand *, WritersBefore> readsAfterWrites(Block &block) { return Reads(block).run(); }

ArrayAttr behind(MLIRContext *context, const WritersBefore &writers) {
  SmallVector<Attribute> names;
  for (Operation *writer : writers) names.push_back(StringAttr::get(context, ir::opName(writer)));
  return names.empty() ? ArrayAttr() : ArrayAttr::get(context, names);
}

} // namespace opc
