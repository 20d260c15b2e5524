// Task order.
// SPDX-License-Identifier: Apache-2.0
#include "Schedule.h"
#include "AttrBridge.h"
#include "Graph.h"

#include <queue>

using namespace mlir;

namespace opc {

namespace {

/// The graph of tasks in plain indices.
struct TaskGraph {
  struct Task {
    std::vector<uint32_t> reads, makes; // buffers, without duplicates
    std::vector<uint32_t> after;        // tasks that read what this one makes
    uint32_t pending = 0;               // tasks that must come first
  };
  struct Buffer {
    uint64_t bytes = 0;
    uint32_t readers = 0;
    bool keep = false; // sources and graph outputs
  };
  std::vector<Task> tasks;
  std::vector<Buffer> buffers;
};

uint64_t byteSize(Value v) { return alignBuffer(static_cast<uint64_t>(ir::bytesOf(v))); }

TaskGraph makeGraph(const std::vector<Operation *> &ops, const std::vector<OpOrder> &orders, Block &block) {
  TaskGraph g;
  g.tasks.resize(ops.size());
  llvm::DenseMap<Value, uint32_t> bufferOf;
  llvm::DenseMap<Operation *, uint32_t> taskOf;
  auto newBuffer = [&](Value v, bool keep) {
    bufferOf[v] = static_cast<uint32_t>(g.buffers.size());
    g.buffers.push_back({byteSize(v), 0, keep});
  };
  for (uint32_t t = 0; t < ops.size(); ++t) {
    Operation *op = ops[t];
    taskOf[op] = t;
    TaskGraph::Task &task = g.tasks[t];
    llvm::SmallDenseSet<Operation *, 4> producers;
    for (Value v : op->getOperands()) {
      if (!bufferOf.count(v)) newBuffer(v, true); // a source
      const uint32_t b = bufferOf[v];
      if (!llvm::is_contained(task.reads, b)) {
        task.reads.push_back(b);
        ++g.buffers[b].readers;
      }
      Operation *producer = v.getDefiningOp();
      auto it = taskOf.find(producer);
      if (it != taskOf.end() && producers.insert(producer).second) {
        g.tasks[it->second].after.push_back(t);
        ++task.pending;
      }
    }
    const user_op::OpDef *def = ir::definitionOf(op);
    if (def && def->isView && op->getNumOperands() != 0 && op->getNumResults() == 1) {
      bufferOf[op->getResult(0)] = bufferOf[op->getOperand(0)];
      continue;
    }
    for (Value v : op->getResults()) {
      newBuffer(v, false);
      task.makes.push_back(bufferOf[v]);
    }
  }
  for (const auto &[before, after] : orders) {
    g.tasks[before].after.push_back(after);
    ++g.tasks[after].pending;
  }
  for (Operation &op : block)
    if (auto out = dyn_cast<ir::OutputOp>(&op))
      if (auto it = bufferOf.find(out.getIn()); it != bufferOf.end()) g.buffers[it->second].keep = true;
  return g;
}

uint64_t peak(const TaskGraph &g, const std::vector<uint32_t> &order) {
  std::vector<uint32_t> readers(g.buffers.size());
  for (size_t b = 0; b < g.buffers.size(); ++b) readers[b] = g.buffers[b].readers;
  uint64_t live = 0, most = 0;
  for (uint32_t t : order) {
    for (uint32_t b : g.tasks[t].makes) live += g.buffers[b].bytes;
    most = std::max(most, live);
    for (uint32_t b : g.tasks[t].reads)
      if (--readers[b] == 0 && !g.buffers[b].keep) live -= g.buffers[b].bytes;
    for (uint32_t b : g.tasks[t].makes)
      if (g.buffers[b].readers == 0 && !g.buffers[b].keep) live -= g.buffers[b].bytes;
  }
  return most;
}

/// Always the ready task that adds least memory; ties by position in the graph.
std::vector<uint32_t> leastMemoryFirst(const TaskGraph &g) {
  const size_t n = g.tasks.size();
  std::vector<uint32_t> readers(g.buffers.size()), pending(n), version(n, 0), order;
  for (size_t b = 0; b < g.buffers.size(); ++b) readers[b] = g.buffers[b].readers;
  // Who still reads a buffer: needed when only one is left, whose cost then changes.
  std::vector<std::vector<uint32_t>> readersOf(g.buffers.size());
  for (uint32_t t = 0; t < n; ++t)
    for (uint32_t b : g.tasks[t].reads) readersOf[b].push_back(t);
  std::vector<bool> done(n, false);
  auto cost = [&](uint32_t t) {
    int64_t c = 0;
    for (uint32_t b : g.tasks[t].makes) c += static_cast<int64_t>(g.buffers[b].bytes);
    for (uint32_t b : g.tasks[t].reads)
      if (readers[b] == 1 && !g.buffers[b].keep) c -= static_cast<int64_t>(g.buffers[b].bytes);
    return c;
  };
  struct Entry {
    int64_t cost;
    uint32_t task, version;
    bool operator>(const Entry &o) const { return cost != o.cost ? cost > o.cost : task > o.task; }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t t = 0; t < n; ++t) {
    pending[t] = g.tasks[t].pending;
    if (pending[t] == 0) ready.push({cost(t), t, 0});
  }
  while (!ready.empty()) {
    const Entry e = ready.top();
    ready.pop();
    if (done[e.task] || e.version != version[e.task]) continue;
    done[e.task] = true;
    order.push_back(e.task);
    for (uint32_t b : g.tasks[e.task].reads)
      if (--readers[b] == 1)
        for (uint32_t t : readersOf[b])
          if (!done[t] && pending[t] == 0) ready.push({cost(t), t, ++version[t]});
    for (uint32_t t : g.tasks[e.task].after)
      if (--pending[t] == 0) ready.push({cost(t), t, ++version[t]});
  }
  return order;
}

/// Each task right after the last of what it needs, following the consumers of the newest result first.
std::vector<uint32_t> depthFirst(const TaskGraph &g) {
  std::vector<uint32_t> pending, order, stack;
  for (const auto &t : g.tasks) pending.push_back(t.pending);
  for (uint32_t t = static_cast<uint32_t>(g.tasks.size()); t-- > 0;)
    if (pending[t] == 0) stack.push_back(t);
  while (!stack.empty()) {
    const uint32_t t = stack.back();
    stack.pop_back();
    order.push_back(t);
    const auto &after = g.tasks[t].after;
    for (size_t i = after.size(); i-- > 0;)
      if (--pending[after[i]] == 0) stack.push_back(after[i]);
  }
  return order;
}

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
  const TaskGraph g = makeGraph(ops, *orders, block);
  std::vector<uint32_t> best(ops.size());
  for (uint32_t i = 0; i < best.size(); ++i) best[i] = i;
  // The graph's own order is one of its data; a write may stand before a read that it must follow.
  const bool ownOrderFits = llvm::all_of(*orders, [](const OpOrder &o) { return o.first < o.second; });
  uint64_t bestPeak = ownOrderFits ? peak(g, best) : UINT64_MAX;
  for (auto candidate : {leastMemoryFirst(g), depthFirst(g)}) {
    const uint64_t p = peak(g, candidate);
    if (candidate.size() == best.size() && p < bestPeak) {
      bestPeak = p;
      best = std::move(candidate);
    }
  }
  waitLate(ops, *orders, &best);
  Operation *end = block.getTerminator();
  for (Operation *op : sources) op->moveBefore(end);
  for (uint32_t t : best) ops[t]->moveBefore(end);
  for (Operation *op : outputs) op->moveBefore(end);
  return success();
}

} // namespace opc
