// What ops cost.
// SPDX-License-Identifier: Apache-2.0
#include "GraphCosts.h"
#include "AttrBridge.h"

using namespace mlir;

namespace opc {

double opSeconds(const OpInstance &op, const DeviceSpeed &device) {
  return op.def().isView ? 0 : opSeconds(device, op.def().name, costOf(op), computeType(op));
}

HeavyOps::HeavyOps(Block &block) {
  uint32_t position = 0;
  // Equal ops are judged once.
  llvm::DenseMap<std::pair<Attribute, Type>, bool> known;
  for (Operation &op : block) {
    position_[&op] = position++;
    auto user = dyn_cast<ir::UserOp>(&op);
    if (!user || user.getOuts().empty()) continue;
    auto [it, fresh] = known.try_emplace({user.getOpTypeAttr(), user.getOuts()[0].getType()}, false);
    if (fresh)
      if (const user_op::OpDef *def = user.def())
        if (auto instance = ir::toInstance(user, *def)) {
          const OpCost cost = costOf(*instance);
          it->second = cost.flops > cost.bytes;
        }
    if (!it->second) continue;
    heavy_.insert(&op);
    lastHeavy_ = position_[&op];
  }
  for (Operation &op : llvm::reverse(block))
    for (Operation *reader : op.getUsers())
      if (heavy_.contains(reader) || leads_.contains(reader)) {
        leads_.insert(&op);
        break;
      }
}

bool HeavyOps::mayWait(Value tensor) const {
  Operation *op = tensor.getDefiningOp();
  auto it = position_.find(op);
  if (it == position_.end() || it->second >= lastHeavy_ || !isa<ir::UserOp>(op)) return false;
  return llvm::none_of(tensor.getUsers(), [&](Operation *r) { return heavy_.contains(r) || leads_.contains(r); });
}

} // namespace opc
