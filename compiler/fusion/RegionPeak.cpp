// What regions do to the peak of memory.
// SPDX-License-Identifier: Apache-2.0
#include "RegionPeak.h"

#include <algorithm>
#include <optional>

namespace opc {
namespace {

// Tasks that may be put in order while single joins are tried; behind that all that have to do with a peak are undone
// at once.
constexpr size_t kBudget = 400'000;
// So often only the last join is undone; then whole regions are.
constexpr int kGentleRounds = 8;
// The memory planner takes about so many times as long as finding out what is alive.
constexpr size_t kArenaPrice = 8;

class PeakKeeper {
public:
  PeakKeeper(const TaskGraph &graph, const std::vector<RegionJoin> &joins, JoinedTasks *tasks)
      : graph_(graph), joins_(joins), tasks_(*tasks) {}

  std::vector<uint32_t> run(std::vector<uint32_t> regions, bool ownOrderFits) {
    const std::vector<uint32_t> single = smallestOrder(graph_, ownOrderFits);
    const uint64_t allowed = livePeakBytes(graph_, single);
    std::optional<uint64_t> arena; // where nothing is joined
    for (int round = 0;; ++round) {
      tasks_.sort(&regions);
      const TaskGraph &joined = tasks_.contract(regions);
      const std::vector<uint32_t> order = smallestOrder(joined, true);
      const LivePeak peak = livePeak(joined, order);
      const std::vector<uint32_t> blamed = atPeak(joined, peak, regions);
      if (blamed.empty()) return regions; // nothing is left to undo
      if (peak.bytes <= allowed) {
        // Less may be alive and need more room, with gaps between.
        const uint64_t needed = arenaBytes(joined, order);
        if (needed <= allowed) return regions;
        if (!arena) arena = arenaBytes(graph_, single);
        if (needed <= *arena) return regions;
        if (tryOne(&regions, blamed, needed, arenaOf)) continue;
      } else if (tryOne(&regions, blamed, peak.bytes, liveOf)) {
        continue;
      }
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

  static uint64_t liveOf(const TaskGraph &joined, uint64_t limit) {
    return livePeakBytes(joined, smallestOrder(joined, true), limit);
  }
  static uint64_t arenaOf(const TaskGraph &joined, uint64_t) { return arenaBytes(joined, smallestOrder(joined, true)); }

  /// Undoes the one join that lowers the peak most, as `measure` sees it.
  bool tryOne(std::vector<uint32_t> *regions, const std::vector<uint32_t> &blamed, uint64_t peak,
              uint64_t (*measure)(const TaskGraph &, uint64_t limit)) {
    const size_t price = measure == arenaOf ? kArenaPrice : 1;
    std::vector<uint32_t> best;
    for (uint32_t b : blamed) {
      if (spent_ + price * regions->size() > kBudget) break;
      spent_ += price * regions->size();
      std::vector<uint32_t> tried(regions->begin(), regions->begin() + b);
      undo((*regions)[b], true, &tried);
      tried.insert(tried.end(), regions->begin() + b + 1, regions->end());
      tasks_.sort(&tried);
      const uint64_t bytes = measure(tasks_.contract(tried), peak);
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
  JoinedTasks &tasks_;
  size_t spent_ = 0;
};

} // namespace

uint64_t leastPeak(const TaskGraph &graph, bool ownOrderFits) {
  return livePeakBytes(graph, smallestOrder(graph, ownOrderFits));
}

std::vector<uint32_t> keepPeak(const TaskGraph &graph, const std::vector<RegionJoin> &joins, JoinedTasks *tasks,
                               std::vector<uint32_t> regions, bool ownOrderFits) {
  return PeakKeeper(graph, joins, tasks).run(std::move(regions), ownOrderFits);
}

} // namespace opc
