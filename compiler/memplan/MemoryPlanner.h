// Buffer lifetimes to offsets. Knows no MLIR.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace opc {

/// A buffer that is live from task `first` to task `last`, both included. Persistent buffers are live always.
struct PlannedBuffer {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0;
  bool persistent = false;
  uint64_t offset = 0; // the planner's answer, a multiple of kBufferAlignment
};

constexpr uint64_t kBufferAlignment = 64;
inline uint64_t alignBuffer(uint64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

struct MemoryPlan {
  uint64_t arenaBytes = 0;
  uint64_t persistentBytes = 0;
  uint64_t liveLowerBound = 0; // the largest sum of live buffers at any task, without the persistent ones
};

/// Assigns offsets so that buffers that are live at the same time do not overlap. Persistent buffers come first, in
/// order. The others are placed by several orders (by size, by lifetime, by time) and the smallest result is kept.
/// Deterministic: ties go to the lower index.
MemoryPlan planMemory(std::vector<PlannedBuffer> *buffers);

} // namespace opc
