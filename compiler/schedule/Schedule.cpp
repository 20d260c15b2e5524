// Task order.
// SPDX-License-Identifier: Apache-2.0
#include "Schedule.h"
#include "Graph.h"
#include "TaskOrders.h"

using namespace mlir;

namespace opc {
namespace {

/// Boxings in the order that all ranks keep.
void addBoxingOrder(const std::vector<Operation *> &ops, std::vector<OpOrder> *orders) {
  std::vector<std::pair<int64_t, uint32_t>> boxings;
  for (uint32_t t = 0; t < ops.size(); ++t)
    if (auto order = ops[t]->getAttrOfType<IntegerAttr>(ir::kOrderAttr)) boxings.push_back({order.getInt(), t});
  std::sort(boxings.begin(), boxings.end());
  for (size_t i = 1; i < boxings.size(); ++i) orders->push_back({boxings[i - 1].second, boxings[i].second});
}

/// Moves what depends on a boxing of another stream behind everything that does not. The order of boxings stays: they
/// are never moved behind one that follows them, since what a boxing waits for does not read such a one, or the one
/// before it would not be either.
void waitLate(const std::vector<Operation *> &ops, const std::vector<OpOrder> &orders, std::vector<uint32_t> *order) {
  std::vector<std::vector<uint32_t>> before(ops.size());
  for (const auto &[first, second] : orders) before[second].push_back(first);
  llvm::DenseMap<Operation *, uint32_t> index;
  for (uint32_t t = 0; t < ops.size(); ++t) index[ops[t]] = t;
  std::vector<bool> late(ops.size(), false);
  bool any = false;
  auto isAside = [&](Operation *op) {
    auto boxing = dyn_cast<ir::BoxingOp>(op);
    return boxing && boxing.getChannel() > 0;
  };
  for (uint32_t t : *order) {
    bool wait = false;
    for (Value v : ops[t]->getOperands()) {
      auto it = index.find(v.getDefiningOp());
      if (it == index.end()) continue;
      // A boxing aside does not make its own channel wait: only what the computation does with its result.
      wait |= late[it->second] || (isAside(ops[it->second]) && !isAside(ops[t]));
    }
    for (uint32_t b : before[t]) wait |= late[b];
    late[t] = wait;
    any |= wait;
  }
  if (!any) return;
  std::stable_partition(order->begin(), order->end(), [&](uint32_t t) { return !late[t]; });
}

} // namespace

std::optional<std::vector<OpOrder>> taskOrders(const std::vector<Operation *> &ops) {
  auto orders = variableOrder(ops);
  if (orders) addBoxingOrder(ops, &*orders);
  return orders;
}

LogicalResult schedule(ModuleOp module) {
  Block &block = graphBlock(module);
  std::vector<Operation *> ops, sources, outputs;
  for (Operation &op : block) {
    if (ir::isTask(&op))
      ops.push_back(&op);
    else if (isa<ir::OutputOp>(&op))
      outputs.push_back(&op);
    else if (!op.hasTrait<OpTrait::IsTerminator>())
      sources.push_back(&op);
  }
  auto orders = taskOrders(ops);
  if (!orders) return failure();
  // The graph's own order is one of its data; a write may stand before a read that it must follow.
  const bool ownOrderFits = llvm::all_of(*orders, [](const OpOrder &o) { return o.first < o.second; });
  std::vector<uint32_t> best = smallestOrder(makeTaskGraph(ops, *orders), ownOrderFits);
  waitLate(ops, *orders, &best);
  Operation *end = block.getTerminator();
  for (Operation *op : sources) op->moveBefore(end);
  for (uint32_t t : best) ops[t]->moveBefore(end);
  for (Operation *op : outputs) op->moveBefore(end);
  return success();
}

} // namespace opc
