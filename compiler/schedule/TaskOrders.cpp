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

uint64_t byteSize(Value v) { return alignBuffer(static_cast<uint64_t>(ir::bytesOf(v))); }

/// The pairs that hold for buffers: no other operand may look into what is overwritten, unless it is offered as well.
std::vector<std::pair<uint32_t, uint32_t>> overwrittenBuffers(Operation *op, const OverwritePairs &pairs,
                                                              const llvm::DenseMap<Value, uint32_t> &bufferOf) {
  std::vector<std::pair<uint32_t, uint32_t>> buffers;
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

/// The largest sum of results alive at once where nothing is overwritten.
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

} // namespace

TaskGraph makeTaskGraph(const std::vector<Operation *> &ops, const std::vector<OpOrder> &orders,
                        llvm::function_ref<OverwritePairs(uint32_t)> overwrites) {
  TaskGraph g;
  g.tasks.resize(ops.size());
  llvm::DenseMap<Value, uint32_t> bufferOf;
  llvm::DenseMap<Operation *, uint32_t> taskOf;
  auto newBuffer = [&](Value v, bool keep) {
    bufferOf[v] = static_cast<uint32_t>(g.buffers.size());
    auto type = dyn_cast<RankedTensorType>(v.getType());
    g.buffers.push_back(
        {byteSize(v), 0, keep, static_cast<uint64_t>(ir::bytesOf(v)), type ? type.getShape() : ArrayRef<int64_t>()});
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
    if (overwrites) task.overwrites = overwrittenBuffers(op, overwrites(t), bufferOf);
  }
  for (const auto &[before, after] : orders) {
    g.tasks[before].after.push_back(after);
    ++g.tasks[after].pending;
  }
  for (const auto &[value, buffer] : bufferOf)
    if (llvm::any_of(value.getUsers(), [](Operation *user) { return isa<ir::OutputOp>(user); }))
      g.buffers[buffer].keep = true;
  return g;
}

/// Buffers that a group reads in another order than that of its loop, or may read so.
static std::vector<uint32_t> readThroughMoves(const TaskGraph &graph, const std::vector<uint32_t> &group) {
  std::vector<uint32_t> found;
  if (llvm::none_of(group, [&](uint32_t t) { return graph.tasks[t].moves; })) return found;
  llvm::SmallDenseSet<uint32_t, 16> seen;
  for (uint32_t t : llvm::reverse(group)) {
    const TaskGraph::Task &task = graph.tasks[t];
    if (!task.moves && llvm::none_of(task.makes, [&](uint32_t b) { return seen.contains(b); })) continue;
    for (uint32_t b : task.reads)
      if (seen.insert(b).second) found.push_back(b);
  }
  return found;
}

TaskGraph contract(const TaskGraph &graph, const std::vector<std::vector<uint32_t>> &groups) {
  TaskGraph g;
  g.buffers = graph.buffers;
  g.tasks.resize(groups.size());
  std::vector<uint32_t> groupOf(graph.tasks.size());
  for (uint32_t i = 0; i < groups.size(); ++i)
    for (uint32_t t : groups[i]) groupOf[t] = i;
  constexpr uint32_t kNobody = UINT32_MAX;
  std::vector<uint32_t> maker(g.buffers.size(), kNobody), lastReader(g.buffers.size(), kNobody);
  for (TaskGraph::Buffer &b : g.buffers) b.readers = 0;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    for (uint32_t t : groups[i])
      for (uint32_t b : graph.tasks[t].makes) maker[b] = i;
    for (uint32_t t : groups[i])
      for (uint32_t b : graph.tasks[t].reads)
        if (maker[b] != i && lastReader[b] != i) {
          lastReader[b] = i;
          ++g.buffers[b].readers;
          g.tasks[i].reads.push_back(b);
        }
  }
  std::vector<uint32_t> seen(groups.size(), kNobody);
  for (uint32_t i = 0; i < groups.size(); ++i) {
    TaskGraph::Task &task = g.tasks[i];
    // What a step inside overwrites may be the group's, if no step behind it reads that.
    llvm::SmallDenseMap<uint32_t, uint32_t, 16> lastRead;
    for (uint32_t n = 0; n < groups[i].size(); ++n)
      for (uint32_t b : graph.tasks[groups[i][n]].reads) lastRead[b] = n;
    for (uint32_t b : readThroughMoves(graph, groups[i])) lastRead[b] = static_cast<uint32_t>(groups[i].size());
    for (uint32_t n = 0; n < groups[i].size(); ++n) {
      const TaskGraph::Task &step = graph.tasks[groups[i][n]];
      for (uint32_t next : step.after)
        if (const uint32_t to = groupOf[next]; to != i && seen[to] != i) {
          seen[to] = i;
          task.after.push_back(to);
          ++g.tasks[to].pending;
        }
      for (uint32_t b : step.makes) {
        if (groups[i].size() > 1 && g.buffers[b].readers == 0 && !g.buffers[b].keep) continue;
        task.makes.push_back(b);
        if (groups[i].size() == 1) continue;
        for (uint32_t r : task.reads)
          if (g.buffers[r].tensorBytes == g.buffers[b].tensorBytes && g.buffers[r].shape == g.buffers[b].shape &&
              (step.goesByRows ? lastRead[r] < n : lastRead[r] <= n))
            task.overwrites.emplace_back(b, r);
      }
      if (groups[i].size() == 1) task.overwrites = step.overwrites;
    }
    std::sort(task.after.begin(), task.after.end()); // as makeTaskGraph() meets them
  }
  return g;
}

std::vector<uint32_t> smallestOrder(const TaskGraph &graph, bool ownOrderFits) {
  std::vector<uint32_t> best(graph.tasks.size());
  for (uint32_t i = 0; i < best.size(); ++i) best[i] = i;
  uint64_t bestPeak = ownOrderFits ? peak(graph, best) : UINT64_MAX;
  for (auto candidate : {leastMemoryFirst(graph), depthFirst(graph)}) {
    const uint64_t p = peak(graph, candidate);
    if (candidate.size() == best.size() && p < bestPeak) {
      bestPeak = p;
      best = std::move(candidate);
    }
  }
  return best;
}

LivePeak livePeak(const TaskGraph &graph, const std::vector<uint32_t> &order, std::vector<uint64_t> *profile) {
  std::vector<uint32_t> readers(graph.buffers.size());
  std::vector<bool> alive(graph.buffers.size(), false);
  uint64_t live = 0;
  LivePeak most;
  auto end = [&](uint32_t b) {
    if (!alive[b]) return;
    alive[b] = false;
    live -= graph.buffers[b].bytes;
  };
  // Twice, as what is alive is written down at the peak alone.
  auto walk = [&](uint64_t wanted) {
    live = 0;
    std::fill(alive.begin(), alive.end(), false);
    for (size_t b = 0; b < graph.buffers.size(); ++b) readers[b] = graph.buffers[b].readers;
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
      if (profile && wanted == 0) profile->push_back(live);
      if (live > most.bytes) {
        most.bytes = live;
        most.task = t;
      }
      if (wanted != 0 && live == wanted) {
        for (uint32_t b = 0; b < alive.size(); ++b)
          if (alive[b]) most.buffers.push_back(b);
        return;
      }
      for (uint32_t b : task.reads)
        if (--readers[b] == 0 && !graph.buffers[b].keep) end(b);
      for (uint32_t b : task.makes)
        if (graph.buffers[b].readers == 0 && !graph.buffers[b].keep) end(b);
    }
  };
  walk(0);
  if (most.bytes != 0) walk(most.bytes);
  return most;
}

} // namespace opc
