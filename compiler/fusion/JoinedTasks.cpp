// The graph of tasks where regions are one task each.
// SPDX-License-Identifier: Apache-2.0
#include "JoinedTasks.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <bit>

namespace opc {
namespace {

/// Numbers below a bound, of which the smallest is taken.
class SmallestFirst {
public:
  explicit SmallestFirst(size_t bound) {
    do {
      bound = (bound + 63) / 64;
      levels_.emplace_back(bound, 0);
    } while (bound > 1);
  }
  void push(size_t n) {
    for (auto &level : levels_) {
      level[n / 64] |= uint64_t(1) << (n % 64);
      n /= 64;
    }
  }
  bool empty() const { return levels_.back()[0] == 0; }
  size_t pop() {
    size_t n = 0;
    for (const auto &level : llvm::reverse(levels_)) n = n * 64 + static_cast<size_t>(std::countr_zero(level[n]));
    const size_t smallest = n;
    for (auto &level : levels_) {
      level[n / 64] &= ~(uint64_t(1) << (n % 64));
      if (level[n / 64] != 0) break;
      n /= 64;
    }
    return smallest;
  }

private:
  std::vector<std::vector<uint64_t>> levels_; // a bit says that the word below it is not empty
};

/// Buffers that a group reads in another order than that of its loop, or may read so.
std::vector<uint32_t> readThroughMoves(const TaskGraph &graph, const std::vector<uint32_t> &group) {
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

} // namespace

const JoinedTasks::Facts &JoinedTasks::factsOf(uint32_t region) {
  if (facts_.size() <= region) facts_.resize(joins_.size());
  Facts &facts = facts_[region];
  if (facts.known) return facts;
  facts.known = true;
  const RegionJoin &join = joins_[region];
  for (uint32_t m : join.members) facts.place = std::max(facts.place, rank_[m]);
  if (join.members.size() == 1) {
    facts.task = graph_.tasks[join.members[0]];
    facts.after = facts.task.after;
    return facts;
  }
  llvm::SmallDenseSet<uint32_t, 16> met(join.members.begin(), join.members.end());
  std::vector<uint32_t> after;
  for (uint32_t m : join.members)
    for (uint32_t next : graph_.tasks[m].after)
      if (met.insert(next).second) after.push_back(next);
  facts.after = keep(after);
  for (uint32_t m : join.members) facts.task.workspace += graph_.tasks[m].partBytes;
  findReadsAndMakes(join, &facts);
  findOverwrites(join, &facts);
  return facts;
}

void JoinedTasks::findReadsAndMakes(const RegionJoin &join, Facts *facts) {
  llvm::SmallDenseMap<uint32_t, uint32_t, 16> readersInside; // of what it makes
  for (uint32_t m : join.members)
    for (uint32_t b : graph_.tasks[m].makes) readersInside[b] = 0;
  llvm::SmallDenseSet<uint32_t, 16> met;
  std::vector<uint32_t> reads, makes;
  for (uint32_t m : join.members)
    for (uint32_t b : graph_.tasks[m].reads)
      if (const auto made = readersInside.find(b); made != readersInside.end())
        ++made->second;
      else if (met.insert(b).second)
        reads.push_back(b);
  for (uint32_t m : join.members)
    for (uint32_t b : graph_.tasks[m].makes)
      if (readersInside[b] != graph_.readers[b] || graph_.buffers[b].keep) makes.push_back(b);
  facts->task.reads = keep(reads);
  facts->task.makes = keep(makes);
}

/// What a step inside overwrites may be the region's, if no step behind it reads that.
void JoinedTasks::findOverwrites(const RegionJoin &join, Facts *facts) {
  llvm::SmallDenseMap<uint32_t, uint32_t, 16> lastRead;
  for (uint32_t n = 0; n < join.members.size(); ++n)
    for (uint32_t b : graph_.tasks[join.members[n]].reads) lastRead[b] = n;
  for (uint32_t b : readThroughMoves(graph_, join.members)) lastRead[b] = static_cast<uint32_t>(join.members.size());
  TaskGraph::Pairs overwrites;
  for (uint32_t n = 0; n < join.members.size(); ++n) {
    const TaskGraph::Task &step = graph_.tasks[join.members[n]];
    for (uint32_t b : step.makes) {
      if (!llvm::is_contained(facts->task.makes, b)) continue;
      const TaskGraph::Buffer &made = graph_.buffers[b];
      for (uint32_t r : facts->task.reads)
        if (graph_.buffers[r].tensorBytes == made.tensorBytes && graph_.buffers[r].shape == made.shape &&
            (step.goesByRows ? lastRead[r] < n : lastRead[r] <= n))
          overwrites.emplace_back(b, r);
    }
  }
  facts->task.overwrites = keep(overwrites);
}

void JoinedTasks::findEdges(const std::vector<uint32_t> &regions) {
  for (uint32_t i = 0; i < regions.size(); ++i)
    for (uint32_t m : joins_[regions[i]].members) groupOf_[m] = i;
  pending_.assign(regions.size(), 0);
  seen_.assign(regions.size(), UINT32_MAX);
  afterAt_.assign(1, 0);
  after_.clear();
  for (uint32_t i = 0; i < regions.size(); ++i) {
    for (uint32_t next : factsOf(regions[i]).after)
      if (const uint32_t to = groupOf_[next]; seen_[to] != i) {
        seen_[to] = i;
        after_.push_back(to);
        ++pending_[to];
      }
    afterAt_.push_back(static_cast<uint32_t>(after_.size()));
  }
}

void JoinedTasks::sort(std::vector<uint32_t> *regions) {
  findEdges(*regions);
  SmallestFirst ready(graph_.tasks.size());
  std::vector<uint32_t> at(graph_.tasks.size()); // by place
  auto push = [&](uint32_t i) {
    const size_t place = factsOf((*regions)[i]).place;
    at[place] = i;
    ready.push(place);
  };
  for (uint32_t i = 0; i < regions->size(); ++i)
    if (pending_[i] == 0) push(i);
  std::vector<uint32_t> sorted;
  sorted.reserve(regions->size());
  while (!ready.empty()) {
    const uint32_t i = at[ready.pop()];
    sorted.push_back((*regions)[i]);
    for (uint32_t e = afterAt_[i]; e < afterAt_[i + 1]; ++e)
      if (--pending_[after_[e]] == 0) push(after_[e]);
  }
  *regions = std::move(sorted);
}

const TaskGraph &JoinedTasks::contract(const std::vector<uint32_t> &regions) {
  findEdges(regions);
  if (joined_.buffers.empty()) joined_.buffers = graph_.buffers;
  joined_.readers.assign(joined_.buffers.size(), 0);
  joined_.tasks.resize(regions.size());
  for (uint32_t i = 0; i < regions.size(); ++i) {
    TaskGraph::Task &task = joined_.tasks[i];
    task = factsOf(regions[i]).task;
    task.pending = pending_[i];
    std::sort(after_.begin() + afterAt_[i], after_.begin() + afterAt_[i + 1]); // as makeTaskGraph() meets them
    task.after = llvm::ArrayRef(after_).slice(afterAt_[i], afterAt_[i + 1] - afterAt_[i]);
    for (uint32_t b : task.reads) ++joined_.readers[b];
  }
  return joined_;
}

} // namespace opc
