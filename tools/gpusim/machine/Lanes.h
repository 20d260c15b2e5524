// What a handler works on: the lanes of a group, their registers, and ways to say what is wrong.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Block.h"
#include "KernelProgram.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace opc::gpusim {

/// A register's bits as a value of an instruction's type, and back.
template <class T> inline T get(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(uint32_t(bits));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(bits);
  else
    return T(bits);
}
template <class T> inline uint64_t put(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(value);
  else
    return uint64_t(std::make_unsigned_t<T>(value));
}

template <class F> inline void each(uint32_t mask, F &&f) {
  if (mask == ~0u) {
    for (int lane = 0; lane < 32; ++lane) f(lane);
  } else {
    for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
  }
}

/// The group of lanes that executes an instruction.
class Lanes {
public:
  Lanes(Run &r, Block &b, Warp &w) : run(r), block(b), warp(w) {}

  Run &run;
  Block &block;
  Warp &warp;
  Frame *frame = nullptr;
  const Program *program = nullptr;
  uint32_t pc = 0;
  uint32_t group = 0;  // lanes that are at pc
  uint32_t active = 0; // those of them that the guard lets through

  const uint64_t *source(int32_t slot) const {
    return slot >= 0 ? frame->registers + size_t(slot) * 32 : program->constants[~slot].data();
  }
  uint64_t *destination(int32_t slot) const { return frame->registers + size_t(slot) * 32; }
  uint32_t predicate(int32_t slot) const { return frame->predicates[slot]; }
  void setPredicate(int32_t slot, uint32_t bits) const {
    uint32_t &p = frame->predicates[slot];
    p = (p & ~active) | (bits & active);
  }

  /// Reports for a lane of the group. Fatal kinds end the launch.
  void find(int lane, const char *kind, int cudaError, std::string message, bool fatal = true) const {
    run.find(block, warp, lane, program->code[pc], *program, kind, cudaError, std::move(message), fatal);
  }
  LineCount &count() const { return frame->counts[pc]; }
};

} // namespace opc::gpusim
