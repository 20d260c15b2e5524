// The graph of tasks in plain indices.
// SPDX-License-Identifier: Apache-2.0
#include "TaskOrders.h"
#include "AttrBridge.h"
#include "Graph.h"
#include "MemoryPlanner.h"

#include <algorithm>
#include <queue>

using namespace mlir;

namespace opc {
namespace {

/// Every tensor has an address: an empty one gets the smallest slot.
uint64_t byteSize(Value v) { return alignBuffer(std::max<uint64_t>(1, static_cast<uint64_t>(ir::bytesOf(v)))); }

/// The pairs that hold for buffers: no other operand may look into what is overwritten, unless it is offered as well.
using BufferPairs = llvm::SmallVector<std::pair<uint32_t, uint32_t>, 2>;
BufferPairs overwrittenBuffers(Operation *op, const OverwritePairs &pairs,
                               const llvm::DenseMap<Value, uint32_t> &bufferOf) {
  BufferPairs buffers;
  for (const auto &[o, i] : pairs) {
    Value in = op->getOperand(static_cast<unsigned>(i));
    const uint32_t buffer = bufferOf.lookup(in);
    bool free = ir::bytesOf(in) == ir::bytesOf(op->getResult(static_cast<unsigned>(o)));
    for (auto [k, v] : llvm::enumerate(op->getOperands()))
      if (bufferOf.lookup(v) == buffer)
        free &= v == in && llvm::is_contained(pairs, std::make_pair(o, static_cast<int>(k)));
    if (free) buffers.emplace_back(bufferOf.lookup(op->getResult(static_cast<unsigned>(o))), buffer);
  }
  return buffers;
}

/// What is alive while tasks run one after the other and overwrite nothing.
class PlainLife {
public:
  explicit PlainLife(const TaskGraph &g) : g_(g), readers_(g.readers) {}

  void make(uint32_t task) {
    for (uint32_t b : g_.tasks[task].makes) live_ += g_.buffers[b].bytes;
    most_ = std::max(most_, live_);
  }
  /// How many tasks still read the buffer once one has.
  uint32_t read(uint32_t buffer) {
    if (--readers_[buffer] == 0 && !g_.buffers[buffer].keep) live_ -= g_.buffers[buffer].bytes;
    return readers_[buffer];
  }
  void drop(uint32_t task) {
    for (uint32_t b : g_.tasks[task].makes)
      if (g_.readers[b] == 0 && !g_.buffers[b].keep) live_ -= g_.buffers[b].bytes;
  }
  /// Bytes that are alive when the task has run, and were not before.
  int64_t cost(uint32_t task) const {
    int64_t c = 0;
    for (uint32_t b : g_.tasks[task].makes) c += static_cast<int64_t>(g_.buffers[b].bytes);
    for (uint32_t b : g_.tasks[task].reads)
      if (readers_[b] == 1 && !g_.buffers[b].keep) c -= static_cast<int64_t>(g_.buffers[b].bytes);
    return c;
  }
  uint64_t most() const { return most_; }

private:
  const TaskGraph &g_;
  std::vector<uint32_t> readers_;
  uint64_t live_ = 0, most_ = 0;
};

/// An order with its peak; without one where the peak would be `limit` or more.
struct Candidate {
  std::vector<uint32_t> order;
  uint64_t peak = UINT64_MAX;
};

uint64_t ownPeak(const TaskGraph &g) {
  PlainLife life(g);
  for (uint32_t t = 0; t < g.tasks.size(); ++t) {
    life.make(t);
    for (uint32_t b : g.tasks[t].reads) life.read(b);
    life.drop(t);
  }
  return life.most();
}

/// Tasks by the buffers that they read: those of buffer b from at[b] to at[b + 1].
struct ReadersOf {
  explicit ReadersOf(const TaskGraph &g) : at(g.buffers.size() + 2, 0) {
    for (size_t b = 0; b < g.buffers.size(); ++b) at[b + 2] = at[b + 1] + g.readers[b];
    tasks.resize(at.back());
    for (uint32_t t = 0; t < g.tasks.size(); ++t)
      for (uint32_t b : g.tasks[t].reads) tasks[at[b + 1]++] = t;
  }
  llvm::ArrayRef<uint32_t> operator[](uint32_t b) const {
    return llvm::ArrayRef(tasks).slice(at[b], at[b + 1] - at[b]);
  }
  std::vector<uint32_t> at, tasks;
};

std::vector<uint32_t> pendingOf(const TaskGraph &g) {
  std::vector<uint32_t> pending;
  pending.reserve(g.tasks.size());
  for (const auto &t : g.tasks) pending.push_back(t.pending);
  return pending;
}

/// Always the ready task that adds least memory; ties by position in the graph.
Candidate leastMemoryFirst(const TaskGraph &g, uint64_t limit) {
  const size_t n = g.tasks.size();
  std::vector<uint32_t> pending = pendingOf(g), version(n, 0), order;
  order.reserve(n);
  PlainLife life(g);
  // Who still reads a buffer: needed when only one is left, whose cost then changes.
  const ReadersOf readersOf(g);
  std::vector<bool> done(n, false);
  struct Entry {
    int64_t cost;
    uint32_t task, version;
    bool operator>(const Entry &o) const { return cost != o.cost ? cost > o.cost : task > o.task; }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (uint32_t t = 0; t < n; ++t)
    if (pending[t] == 0) ready.push({life.cost(t), t, 0});
  while (!ready.empty()) {
    const Entry e = ready.top();
    ready.pop();
    if (done[e.task] || e.version != version[e.task]) continue;
    done[e.task] = true;
    order.push_back(e.task);
    life.make(e.task);
    if (life.most() >= limit) return {};
    for (uint32_t b : g.tasks[e.task].reads)
      if (life.read(b) == 1)
        for (uint32_t t : readersOf[b])
          if (!done[t] && pending[t] == 0) ready.push({life.cost(t), t, ++version[t]});
    life.drop(e.task);
    for (uint32_t t : g.tasks[e.task].after)
      if (--pending[t] == 0) ready.push({life.cost(t), t, ++version[t]});
  }
  return {std::move(order), life.most()};
}

/// Each task right after the last of what it needs, following the consumers of the newest result first.
Candidate depthFirst(const TaskGraph &g, uint64_t limit) {
  std::vector<uint32_t> pending = pendingOf(g), order, stack;
  order.reserve(g.tasks.size());
  PlainLife life(g);
  for (uint32_t t = static_cast<uint32_t>(g.tasks.size()); t-- > 0;)
    if (pending[t] == 0) stack.push_back(t);
  while (!stack.empty()) {
    const uint32_t t = stack.back();
    stack.pop_back();
    order.push_back(t);
    life.make(t);
    if (life.most() >= limit) return {};
    for (uint32_t b : g.tasks[t].reads) life.read(b);
    life.drop(t);
    const auto &after = g.tasks[t].after;
    for (size_t i = after.size(); i-- > 0;)
      if (--pending[after[i]] == 0) stack.push_back(after[i]);
  }
  return {std::move(order), life.most()};
}

/// What tasks read, make and overwrite while a graph of them is made: of most so little that it needs no heap.
struct TaskLists {
  llvm::SmallVector<uint32_t, 2> reads, makes, after;
  BufferPairs overwrites;
};

/// The tasks' lists, one behind the other.
void keepLists(const std::vector<TaskLists> &tasks, TaskGraph *g) {
  size_t count = 0, pairs = 0;
  for (const TaskLists &t : tasks) {
    count += t.reads.size() + t.makes.size() + t.after.size();
    pairs += t.overwrites.size();
  }
  g->lists.reserve(count); // pointed into from here on
  g->pairs.reserve(pairs);
  auto keep = [](const auto &list, auto *all) {
    const size_t at = all->size();
    all->insert(all->end(), list.begin(), list.end());
    return llvm::ArrayRef(*all).drop_front(at);
  };
  for (size_t t = 0; t < tasks.size(); ++t) {
    g->tasks[t].reads = keep(tasks[t].reads, &g->lists);
    g->tasks[t].makes = keep(tasks[t].makes, &g->lists);
    g->tasks[t].after = keep(tasks[t].after, &g->lists);
    g->tasks[t].overwrites = keep(tasks[t].overwrites, &g->pairs);
  }
}

} // namespace

TaskGraph makeTaskGraph(const std::vector<Operation *> &ops, const std::vector<OpOrder> &orders,
                        llvm::function_ref<OverwritePairs(uint32_t)> overwrites) {
  TaskGraph g;
  g.tasks.resize(ops.size());
  std::vector<TaskLists> lists(ops.size());
  llvm::DenseMap<Value, uint32_t> bufferOf;
  bufferOf.reserve(static_cast<unsigned>(ops.size()));
  llvm::DenseMap<Operation *, uint32_t> taskOf;
  taskOf.reserve(static_cast<unsigned>(ops.size()));
  const auto isOutput = [](Value v) {
    return llvm::any_of(v.getUsers(), [](Operation *user) { return isa<ir::OutputOp>(user); });
  };
  auto newBuffer = [&](Value v, bool isSource) {
    const auto buffer = static_cast<uint32_t>(g.buffers.size());
    bufferOf[v] = buffer;
    const bool keep = isSource || isOutput(v);
    auto type = dyn_cast<RankedTensorType>(v.getType());
    g.buffers.push_back(
        {byteSize(v), keep, static_cast<uint64_t>(ir::bytesOf(v)), type ? type.getShape() : ArrayRef<int64_t>()});
    g.readers.push_back(0);
    return buffer;
  };
  for (uint32_t t = 0; t < ops.size(); ++t) {
    Operation *op = ops[t];
    taskOf[op] = t;
    TaskLists &task = lists[t];
    llvm::SmallDenseSet<Operation *, 4> producers;
    for (Value v : op->getOperands()) {
      const auto known = bufferOf.find(v);
      const uint32_t b = known != bufferOf.end() ? known->second : newBuffer(v, true);
      if (!llvm::is_contained(task.reads, b)) {
        task.reads.push_back(b);
        ++g.readers[b];
      }
      Operation *producer = v.getDefiningOp();
      auto it = taskOf.find(producer);
      if (it != taskOf.end() && producers.insert(producer).second) {
        lists[it->second].after.push_back(t);
        ++g.tasks[t].pending;
      }
    }
    const user_op::OpDef *def = ir::definitionOf(op);
    if (def && def->isView && op->getNumOperands() != 0 && op->getNumResults() == 1) {
      const uint32_t viewed = bufferOf.lookup(op->getOperand(0));
      bufferOf[op->getResult(0)] = viewed;
      g.buffers[viewed].keep |= isOutput(op->getResult(0));
      continue;
    }
    for (Value v : op->getResults()) task.makes.push_back(newBuffer(v, false));
    if (overwrites) task.overwrites = overwrittenBuffers(op, overwrites(t), bufferOf);
  }
  for (const auto &[before, after] : orders) {
    lists[before].after.push_back(after);
    ++g.tasks[after].pending;
  }
  keepLists(lists, &g);
  return g;
}

std::vector<uint32_t> smallestOrder(const TaskGraph &graph, bool ownOrderFits) {
  std::vector<uint32_t> best(graph.tasks.size());
  for (uint32_t i = 0; i < best.size(); ++i) best[i] = i;
  uint64_t least = ownOrderFits ? ownPeak(graph) : UINT64_MAX;
  for (const auto find : {leastMemoryFirst, depthFirst}) {
    Candidate candidate = find(graph, least);
    if (candidate.order.size() != best.size()) continue;
    least = candidate.peak;
    best = std::move(candidate.order);
  }
  return best;
}

namespace {

/// Runs the tasks in an order; `visit` gets each with the bytes that are alive while it runs, and says whether to go
/// on. Returns what is alive at the end.
template <typename Visit>
std::vector<bool> walkLive(const TaskGraph &graph, const std::vector<uint32_t> &order, const Visit &visit) {
  std::vector<uint32_t> readers = graph.readers;
  std::vector<bool> alive(graph.buffers.size(), false);
  uint64_t live = 0;
  auto end = [&](uint32_t b) {
    if (!alive[b]) return;
    alive[b] = false;
    live -= graph.buffers[b].bytes;
  };
  for (uint32_t t : order) {
    const TaskGraph::Task &task = graph.tasks[t];
    for (uint32_t b : task.makes) {
      for (const auto &[result, operand] : task.overwrites)
        if (result == b && alive[operand] && readers[operand] == 1 && !graph.buffers[operand].keep) {
          end(operand);
          break;
        }
      alive[b] = true;
      live += graph.buffers[b].bytes;
    }
    if (!visit(t, live + alignBuffer(task.workspace))) return alive;
    for (uint32_t b : task.reads)
      if (--readers[b] == 0 && !graph.buffers[b].keep) end(b);
    for (uint32_t b : task.makes)
      if (graph.readers[b] == 0 && !graph.buffers[b].keep) end(b);
  }
  return alive;
}

} // namespace

LivePeak livePeak(const TaskGraph &graph, const std::vector<uint32_t> &order, std::vector<uint64_t> *profile) {
  LivePeak most;
  walkLive(graph, order, [&](uint32_t t, uint64_t live) {
    if (profile) profile->push_back(live);
    if (live > most.bytes) {
      most.bytes = live;
      most.task = t;
    }
    return true;
  });
  if (most.bytes == 0) return most;
  // Once more up to there, to see what is alive.
  const std::vector<bool> alive = walkLive(graph, order, [&](uint32_t, uint64_t live) { return live != most.bytes; });
  for (uint32_t b = 0; b < alive.size(); ++b)
    if (alive[b]) most.buffers.push_back(b);
  return most;
}

uint64_t arenaBytes(const TaskGraph &graph, const std::vector<uint32_t> &order) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<PlannedBuffer> slots;
  std::vector<uint32_t> readers = graph.readers, slotOf(graph.buffers.size(), kNone);
  const auto end = static_cast<uint32_t>(order.size());
  for (uint32_t now = 0; now < end; ++now) {
    const TaskGraph::Task &task = graph.tasks[order[now]];
    llvm::SmallDenseSet<uint32_t, 4> taken;
    for (uint32_t b : task.makes) {
      auto slot = static_cast<uint32_t>(slots.size());
      for (const auto &[result, operand] : task.overwrites)
        if (result == b && slotOf[operand] != kNone && readers[operand] == 1 && !graph.buffers[operand].keep &&
            taken.insert(slotOf[operand]).second) {
          slot = slotOf[operand];
          break;
        }
      if (slot == slots.size()) slots.push_back({graph.buffers[b].bytes, now, now});
      slotOf[b] = slot;
      slots[slot].last = graph.buffers[b].keep ? end : now;
    }
    if (task.workspace > 0) slots.push_back({task.workspace, now, now});
    for (uint32_t b : task.reads) {
      --readers[b];
      if (slotOf[b] != kNone) slots[slotOf[b]].last = std::max(slots[slotOf[b]].last, now);
    }
  }
  return planMemory(&slots).arenaBytes;
}

uint64_t livePeakBytes(const TaskGraph &graph, const std::vector<uint32_t> &order, uint64_t limit) {
  uint64_t most = 0;
  walkLive(graph, order, [&](uint32_t, uint64_t live) {
    most = std::max(most, live);
    return most < limit;
  });
  return most;
}

} // namespace opc
