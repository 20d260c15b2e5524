// Buffer lifetimes to offsets.
// SPDX-License-Identifier: Apache-2.0
#include "MemoryPlanner.h"

#include <algorithm>
#include <map>
#include <set>

namespace opc {
namespace {

using Index = uint32_t;

/// Places buffers in the given order, each at the lowest gap that fits among those already placed and live together
/// (the tightest gap when several fit). Quadratic in the number of buffers that overlap in time.
uint64_t placeInOrder(const std::vector<PlannedBuffer> &buffers, const std::vector<Index> &order,
                      std::vector<uint64_t> *offsets) {
  uint64_t end = 0;
  std::vector<Index> placed; // sorted by offset
  placed.reserve(order.size());
  for (Index i : order) {
    const PlannedBuffer &b = buffers[i];
    const uint64_t size = alignBuffer(b.bytes);
    uint64_t at = 0, best = UINT64_MAX, bestGap = UINT64_MAX;
    for (Index j : placed) {
      const PlannedBuffer &o = buffers[j];
      if (o.last < b.first || b.last < o.first) continue;
      const uint64_t start = (*offsets)[j];
      if (start >= at + size && start - at < bestGap) {
        best = at;
        bestGap = start - at;
      }
      at = std::max(at, start + alignBuffer(o.bytes));
    }
    (*offsets)[i] = best == UINT64_MAX ? at : best;
    end = std::max(end, (*offsets)[i] + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](Index a, Index b2) { return (*offsets)[a] < (*offsets)[b2]; }),
                  i);
  }
  return end;
}

/// One sweep over time with a free list, best fit: n log n, for graphs too large for the quadratic orders.
uint64_t placeByTime(const std::vector<PlannedBuffer> &buffers, const std::vector<Index> &byStart,
                     std::vector<uint64_t> *offsets) {
  std::map<uint64_t, uint64_t> freeBlocks; // offset -> size
  std::set<std::pair<uint64_t, uint64_t>> bySize;
  std::multimap<uint32_t, Index> live; // last -> buffer
  uint64_t end = 0;
  auto add = [&](uint64_t offset, uint64_t size) {
    auto next = freeBlocks.lower_bound(offset);
    if (next != freeBlocks.end() && offset + size == next->first) {
      bySize.erase({next->second, next->first});
      size += next->second;
      next = freeBlocks.erase(next);
    }
    if (next != freeBlocks.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        bySize.erase({previous->second, previous->first});
        offset = previous->first;
        size += previous->second;
        freeBlocks.erase(previous);
      }
    }
    freeBlocks[offset] = size;
    bySize.insert({size, offset});
  };
  for (Index i : byStart) {
    const PlannedBuffer &b = buffers[i];
    while (!live.empty() && live.begin()->first < b.first) {
      const Index j = live.begin()->second;
      live.erase(live.begin());
      if (buffers[j].bytes) add((*offsets)[j], alignBuffer(buffers[j].bytes));
    }
    const uint64_t size = alignBuffer(b.bytes);
    auto fit = bySize.lower_bound({size, 0});
    if (size == 0) {
      (*offsets)[i] = 0;
    } else if (fit != bySize.end()) {
      const auto [blockSize, offset] = *fit;
      bySize.erase(fit);
      freeBlocks.erase(offset);
      (*offsets)[i] = offset;
      if (blockSize > size) {
        freeBlocks[offset + size] = blockSize - size;
        bySize.insert({blockSize - size, offset + size});
      }
    } else {
      // Grow; a free block at the very end is used up first.
      uint64_t offset = end;
      if (!freeBlocks.empty()) {
        auto lastBlock = std::prev(freeBlocks.end());
        if (lastBlock->first + lastBlock->second == end) {
          offset = lastBlock->first;
          bySize.erase({lastBlock->second, lastBlock->first});
          freeBlocks.erase(lastBlock);
        }
      }
      (*offsets)[i] = offset;
      end = offset + size;
    }
    live.emplace(b.last, i);
  }
  return end;
}

/// Places what reaches the end first, again and again: keeps the best of up to `rounds` orders that come about so.
uint64_t promoteHighest(const std::vector<PlannedBuffer> &buffers, std::vector<Index> order, size_t rounds,
                        uint64_t enough, uint64_t bestEnd, std::vector<uint64_t> *best) {
  std::vector<uint64_t> trial(buffers.size());
  while (rounds-- != 0 && bestEnd > enough) {
    const uint64_t end = placeInOrder(buffers, order, &trial);
    if (end < bestEnd) {
      bestEnd = end;
      *best = trial;
    }
    const auto highest = std::find_if(order.begin(), order.end(),
                                      [&](Index i) { return trial[i] + alignBuffer(buffers[i].bytes) == end; });
    if (highest == order.begin()) return bestEnd; // it would be placed as before
    std::rotate(order.begin(), highest, highest + 1);
  }
  return bestEnd;
}

uint64_t lowerBound(const std::vector<PlannedBuffer> &buffers, const std::vector<Index> &temporary) {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> events; // task -> born there, dead after it
  for (Index i : temporary) {
    events[buffers[i].first].first += alignBuffer(buffers[i].bytes);
    events[buffers[i].last].second += alignBuffer(buffers[i].bytes);
  }
  uint64_t live = 0, most = 0;
  for (const auto &e : events) {
    live += e.second.first;
    most = std::max(most, live);
    live -= e.second.second;
  }
  return most;
}

} // namespace

MemoryPlan planMemory(std::vector<PlannedBuffer> *buffers) {
  MemoryPlan plan;
  std::vector<Index> temporary;
  for (Index i = 0; i < buffers->size(); ++i) {
    PlannedBuffer &b = (*buffers)[i];
    if (!b.persistent) {
      temporary.push_back(i);
      continue;
    }
    b.offset = plan.persistentBytes;
    plan.persistentBytes += alignBuffer(b.bytes);
  }
  plan.liveLowerBound = lowerBound(*buffers, temporary);

  auto bySize = temporary, byStart = temporary, byArea = temporary;
  auto size = [&](Index i) { return alignBuffer((*buffers)[i].bytes); };
  auto life = [&](Index i) { return uint64_t{(*buffers)[i].last - (*buffers)[i].first} + 1; };
  std::stable_sort(byStart.begin(), byStart.end(),
                   [&](Index a, Index b) { return (*buffers)[a].first < (*buffers)[b].first; });
  std::vector<uint64_t> best(buffers->size()), trial(buffers->size());
  uint64_t bestEnd = placeByTime(*buffers, byStart, &best);
  // The quadratic orders pay only where they can still gain and stay fast.
  constexpr size_t kMaxQuadratic = 4000, kMaxPlacements = 20'000'000;
  if (bestEnd > plan.liveLowerBound && temporary.size() <= kMaxQuadratic) {
    std::stable_sort(bySize.begin(), bySize.end(), [&](Index a, Index b) { return size(a) > size(b); });
    std::stable_sort(byArea.begin(), byArea.end(),
                     [&](Index a, Index b) { return life(a) * (size(a) / 64) > life(b) * (size(b) / 64); });
    for (const auto *order : {&bySize, &byArea, &byStart}) {
      const uint64_t end = placeInOrder(*buffers, *order, &trial);
      if (end < bestEnd) {
        bestEnd = end;
        best = trial;
      }
      if (bestEnd == plan.liveLowerBound) break;
    }
    const size_t rounds = kMaxPlacements / std::max<size_t>(1, temporary.size() * temporary.size());
    for (const auto *order : {&bySize, &byStart})
      bestEnd = promoteHighest(*buffers, *order, std::min<size_t>(rounds, 64), plan.liveLowerBound, bestEnd, &best);
  }
  for (Index i : temporary) (*buffers)[i].offset = plan.persistentBytes + best[i];
  plan.arenaBytes = plan.persistentBytes + bestEnd;
  return plan;
}

} // namespace opc
