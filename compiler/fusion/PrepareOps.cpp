// Ops that compute the same in every run: they run once, when the weights are there.
// SPDX-License-Identifier: Apache-2.0
#include "PrepareOps.h"

#include "AttrBridge.h"
#include "ControlOp.h"
#include "Graph.h"
#include "LibraryFusion.h"
#include "OpcDialect.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

// What is prepared stays in memory, where a result that is computed in each run shares its place with others. So much
// may it be; more than that, as many times the bytes of what it is made of: weights in half precision as f32.
constexpr int64_t kLittle = 64 << 10, kTimes = 2;

class Search {
public:
  explicit Search(Block &block) : block_(block) {}

  /// In the order of the graph.
  std::vector<Operation *> run() {
    for (Operation &op : block_) {
      if (isa<ir::VariableOp, ir::ConstantOp>(&op)) constants_.insert(op.getResult(0));
      if (auto user = dyn_cast<ir::UserOp>(&op)) look(user);
    }
    std::vector<Operation *> found;
    for (Operation *op : llvm::reverse(candidates_))
      if (isOfUse(op)) found.push_back(op);
    std::reverse(found.begin(), found.end());
    return found;
  }

private:
  void look(ir::UserOp op) {
    const user_op::OpDef *def = op.def();
    const auto isConstant = [&](Value v) { return constants_.contains(v); };
    if (!def || op.getArgs().empty() || !llvm::all_of(op.getArgs(), isConstant)) return;
    if (def->isView && op.getOuts().size() == 1) { // the bytes of its operand
      constants_.insert(op.getOuts()[0]);
      views_.insert(op);
      candidates_.push_back(op);
      return;
    }
    if (!def->pure || controlKind(def->name) != ControlKind::kNone || op.getDeviceAttr() || hasPace(op)) return;
    int64_t read = 0, made = 0;
    for (Value v : op.getArgs()) read += ir::bytesOf(v);
    for (Value v : op.getOuts()) made += ir::bytesOf(v);
    if (made > std::max(kLittle, kTimes * read)) return;
    candidates_.push_back(op);
    for (Value v : op.getOuts()) constants_.insert(v);
  }

  static bool hasPace(Operation *op) {
    return op->hasAttr(ir::kLagAttr) || op->hasAttr(ir::kStrideAttr) || op->hasAttr(ir::kCtrlInAttr) ||
           op->hasAttr(ir::kOrderedAttr) || op->hasAttr(ir::kShardingAttr);
  }

  /// Whether a task of every run reads what it makes. What is only an output is computed like everything else: a graph
  /// without inputs has something to run. Readers are looked at before those that they read.
  bool isOfUse(Operation *op) {
    const bool reaches = llvm::any_of(op->getUsers(), [&](Operation *reader) {
      if (!ir::isTask(reader)) return false;
      return useful_.contains(reader) ||
             !llvm::all_of(reader->getResults(), [&](Value v) { return constants_.contains(v); });
    });
    if (reaches) useful_.insert(op);
    return reaches && !views_.contains(op);
  }

  Block &block_;
  llvm::DenseSet<Value> constants_;
  llvm::DenseSet<Operation *> views_, useful_;
  std::vector<Operation *> candidates_;
};

} // namespace

void prepareOps(ModuleOp module) {
  if (trains(module)) return;
  const auto mark = UnitAttr::get(module.getContext());
  for (Operation *op : Search(graphBlock(module)).run()) op->setAttr(ir::kPreparedAttr, mark);
}

} // namespace opc
