// What the race checker remembers of each four bytes of memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::gpusim {

/// Who accessed last: block, thread, its warp's clock then, which of the four bytes, and whether it was an atomic,
/// volatile or otherwise strong access. 0: nobody.
struct Stamp {
  uint64_t bits = 0;
  // block 24 (modulo) | thread 10 | clock 24 | strong 1 | valid 1 | mask 4
  static Stamp make(uint32_t block, uint32_t thread, uint32_t clock, bool strong, uint32_t mask) {
    return {uint64_t(block & 0xffffff) << 40 | uint64_t(thread) << 30 | uint64_t(clock & 0xffffff) << 6 |
            uint64_t(strong) << 5 | 16 | mask};
  }
  bool valid() const { return bits & 16; }
  uint32_t block() const { return uint32_t(bits >> 40); }
  uint32_t thread() const { return bits >> 30 & 1023; }
  uint32_t clock() const { return bits >> 6 & 0xffffff; }
  bool strong() const { return bits & 32; }
  uint32_t mask() const { return bits & 15; }
};

/// Of an earlier generation (a launch for global memory, a block for shared): as if it were empty.
struct Cell {
  Stamp writer, reader[2];
  uint32_t generation = 0;
  uint8_t read = 0, wrote = 0, atomic = 0; // bytes that were touched in this generation, by anybody
  uint8_t interval = 0;                    // in which both readers were found to be unordered: they stay
};
static_assert(sizeof(Cell) == 32);

inline uint64_t shadowBytes(uint64_t bytes) { return (bytes + 3) / 4 * sizeof(Cell); }

} // namespace opc::gpusim
