// What regions do to the peak of memory.
// SPDX-License-Identifier: Apache-2.0
#include "RegionPeak.h"

#include <algorithm>
#include <queue>

namespace opc {
namespace {

// Tasks that may be put in order while single joins are tried; behind that all that have to do with a peak are undone
// at once.
constexpr size_t kBudget = 400'000;
// So often only the last join is undone; then whole regions are.
constexpr int kGentleRounds = 8;

class PeakKeeper {
public:
  PeakKeeper(const TaskGraph &graph, const std::vector<RegionJoin> &joins, const std::vector<size_t> &rank)
      : graph_(graph), joins_(joins), rank_(rank) {}

  std::vector<uint32_t> run(std::vector<uint32_t> regions, bool ownOrderFits) {
    const uint64_t allowed = livePeak(graph_, smallestOrder(graph_, ownOrderFits)).bytes;
    for (int round = 0;; ++round) {
      sort(&regions);
      const TaskGraph joined = contract(graph_, membersOf(regions));
      const LivePeak peak = livePeak(joined, smallestOrder(joined, true));
      if (peak.bytes <= allowed) return regions;
      const std::vector<uint32_t> blamed = atPeak(joined, peak, regions);
      if (blamed.empty()) return regions; // nothing is left to undo
      if (tryOne(&regions, blamed, peak.bytes)) continue;
      std::vector<uint32_t> next;
      for (uint32_t i = 0, b = 0; i < regions.size(); ++i)
        if (b < blamed.size() && blamed[b] == i) {
          ++b;
          undo(regions[i], round < kGentleRounds, &next);
        } else {
          next.push_back(regions[i]);
        }
      regions = std::move(next);
    }
  }

private:
  std::vector<std::vector<uint32_t>> membersOf(const std::vector<uint32_t> &regions) const {
    std::vector<std::vector<uint32_t>> members;
    members.reserve(regions.size());
    for (uint32_t r : regions) members.push_back(joins_[r].members);
    return members;
  }

  /// Orders regions along the edges, else by the place of their last op.
  void sort(std::vector<uint32_t> *regions) const {
    TaskGraph joined = contract(graph_, membersOf(*regions));
    auto place = [&](uint32_t i) {
      size_t last = 0;
      for (uint32_t m : joins_[(*regions)[i]].members) last = std::max(last, rank_[m]);
      return last;
    };
    using Entry = std::pair<size_t, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (uint32_t i = 0; i < regions->size(); ++i)
      if (joined.tasks[i].pending == 0) ready.emplace(place(i), i);
    std::vector<uint32_t> sorted;
    while (!ready.empty()) {
      const uint32_t i = ready.top().second;
      ready.pop();
      sorted.push_back((*regions)[i]);
      for (uint32_t next : joined.tasks[i].after)
        if (--joined.tasks[next].pending == 0) ready.emplace(place(next), next);
    }
    *regions = std::move(sorted);
  }

  /// Places of the regions that run at the peak, or read or make what is alive there; all of them if there is none.
  std::vector<uint32_t> atPeak(const TaskGraph &joined, const LivePeak &peak,
                               const std::vector<uint32_t> &regions) const {
    std::vector<bool> alive(joined.buffers.size(), false);
    for (uint32_t b : peak.buffers) alive[b] = true;
    std::vector<uint32_t> blamed, all;
    for (uint32_t i = 0; i < regions.size(); ++i) {
      if (joins_[regions[i]].first < 0) continue;
      all.push_back(i);
      const TaskGraph::Task &task = joined.tasks[i];
      auto isAlive = [&](uint32_t b) { return alive[b]; };
      if (i == peak.task || std::any_of(task.reads.begin(), task.reads.end(), isAlive) ||
          std::any_of(task.makes.begin(), task.makes.end(), isAlive))
        blamed.push_back(i);
    }
    return blamed.empty() ? all : blamed;
  }

  void undo(uint32_t region, bool onlyLast, std::vector<uint32_t> *out) const {
    const RegionJoin &join = joins_[region];
    if (join.first < 0) {
      out->push_back(region);
      return;
    }
    for (int32_t part : {join.first, join.second}) {
      if (onlyLast)
        out->push_back(static_cast<uint32_t>(part));
      else
        undo(static_cast<uint32_t>(part), false, out);
    }
  }

  /// Undoes the one join that lowers the peak most.
  bool tryOne(std::vector<uint32_t> *regions, const std::vector<uint32_t> &blamed, uint64_t peak) {
    std::vector<uint32_t> best;
    for (uint32_t b : blamed) {
      if (spent_ + regions->size() > kBudget) break;
      spent_ += regions->size();
      std::vector<uint32_t> tried(regions->begin(), regions->begin() + b);
      undo((*regions)[b], true, &tried);
      tried.insert(tried.end(), regions->begin() + b + 1, regions->end());
      sort(&tried);
      const TaskGraph joined = contract(graph_, membersOf(tried));
      const uint64_t bytes = livePeak(joined, smallestOrder(joined, true)).bytes;
      if (bytes >= peak) continue;
      peak = bytes;
      best = std::move(tried);
    }
    if (best.empty()) return false;
    *regions = std::move(best);
    return true;
  }

  const TaskGraph &graph_;
  const std::vector<RegionJoin> &joins_;
  const std::vector<size_t> &rank_;
  size_t spent_ = 0;
};

} // namespace

uint64_t leastPeak(const TaskGraph &graph, bool ownOrderFits) {
  return livePeak(graph, smallestOrder(graph, ownOrderFits)).bytes;
}

uint64_t regionsPeak(const TaskGraph &graph, const std::vector<RegionJoin> &joins,
                     const std::vector<uint32_t> &regions) {
  std::vector<std::vector<uint32_t>> members;
  for (uint32_t r : regions) members.push_back(joins[r].members);
  return leastPeak(contract(graph, members), true);
}

std::vector<uint32_t> keepPeak(const TaskGraph &graph, const std::vector<RegionJoin> &joins,
                               std::vector<uint32_t> regions, const std::vector<size_t> &rank, bool ownOrderFits) {
  return PeakKeeper(graph, joins, rank).run(std::move(regions), ownOrderFits);
}

} // namespace opc
