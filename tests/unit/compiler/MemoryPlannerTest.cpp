// The memory planner: no two live buffers overlap, and the result is near the liveness bound.
// SPDX-License-Identifier: Apache-2.0
#include "MemoryPlanner.h"

#include <catch2/catch.hpp>

#include <random>

using namespace opc;

namespace {

bool overlaps(const PlannedBuffer &a, const PlannedBuffer &b) {
  const bool inTime = a.persistent || b.persistent || (a.first <= b.last && b.first <= a.last);
  const bool inSpace = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  return inTime && inSpace;
}

void check(std::vector<PlannedBuffer> buffers) {
  const MemoryPlan plan = planMemory(&buffers);
  uint64_t end = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    REQUIRE(buffers[i].offset % kBufferAlignment == 0);
    end = std::max(end, buffers[i].offset + alignBuffer(buffers[i].bytes));
    for (size_t j = 0; j < i; ++j)
      if (overlaps(buffers[i], buffers[j])) FAIL("buffers " << j << " and " << i << " overlap");
  }
  REQUIRE(end <= plan.arenaBytes);
  REQUIRE(plan.arenaBytes - plan.persistentBytes >= plan.liveLowerBound);
}

std::vector<PlannedBuffer> randomBuffers(uint32_t seed, size_t count, uint32_t tasks) {
  std::mt19937 g(seed);
  std::vector<PlannedBuffer> buffers(count);
  for (PlannedBuffer &b : buffers) {
    b.bytes = 1 + g() % 5000;
    b.first = static_cast<uint32_t>(g() % tasks);
    b.last = std::min(tasks - 1, b.first + static_cast<uint32_t>(g() % 12));
    b.persistent = g() % 10 == 0;
  }
  return buffers;
}

} // namespace

TEST_CASE("live buffers never overlap", "[memplan]") {
  for (uint32_t seed = 0; seed < 60; ++seed) check(randomBuffers(seed, 1 + seed * 5, 40));
}

TEST_CASE("the sweep for large graphs keeps the same promise", "[memplan]") {
  auto buffers = randomBuffers(7, 6000, 3000);
  const MemoryPlan plan = planMemory(&buffers);
  // Pairwise over 6,000 is too much: by time, each buffer against those born while it lives.
  std::vector<const PlannedBuffer *> byStart;
  for (const auto &b : buffers)
    if (!b.persistent) byStart.push_back(&b);
  std::sort(byStart.begin(), byStart.end(), [](auto *a, auto *b) { return a->first < b->first; });
  for (size_t i = 0; i < byStart.size(); ++i)
    for (size_t j = i + 1; j < byStart.size() && byStart[j]->first <= byStart[i]->last; ++j)
      REQUIRE_FALSE(overlaps(*byStart[i], *byStart[j]));
  REQUIRE(plan.arenaBytes - plan.persistentBytes >= plan.liveLowerBound);
}

TEST_CASE("a chain needs two buffers", "[memplan]") {
  std::vector<PlannedBuffer> chain;
  for (uint32_t t = 0; t < 100; ++t) chain.push_back({1024, t, t + 1, false, 0});
  const MemoryPlan plan = planMemory(&chain);
  REQUIRE(plan.liveLowerBound == 2048);
  REQUIRE(plan.arenaBytes == 2048);
}

TEST_CASE("equal inputs give equal plans", "[memplan]") {
  auto a = randomBuffers(3, 300, 60), b = a;
  planMemory(&a);
  planMemory(&b);
  for (size_t i = 0; i < a.size(); ++i) REQUIRE(a[i].offset == b[i].offset);
}

TEST_CASE("where the plain orders leave gaps, what reaches the end is placed first", "[memplan]") {
  // 194 of these meet the bound without that, and the worst is an eighth above it.
  size_t met = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    auto buffers = randomBuffers(1000 + seed, 12, 10);
    for (PlannedBuffer &b : buffers) b.bytes = uint64_t{1024} << (b.bytes % 3);
    const MemoryPlan plan = planMemory(&buffers);
    const uint64_t activations = plan.arenaBytes - plan.persistentBytes;
    met += activations == plan.liveLowerBound;
    REQUIRE(activations * 10 <= plan.liveLowerBound * 11);
  }
  CHECK(met >= 197);
}
