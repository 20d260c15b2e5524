// State of a launch: blocks, warps, frames of functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelProgram.h"
#include "Machine.h"
#include "Shadow.h"

#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace opc::gpusim {

struct RangeState;

/// Counters of one instruction.
struct LineCount {
  uint64_t instructions = 0, lanes = 0;
  uint32_t requests = 0, sharedRequests = 0;
  uint64_t sectors = 0, idealSectors = 0, wavefronts = 0, idealWavefronts = 0, bytesRead = 0, bytesWritten = 0;
};

/// A function that some lanes of a warp are in.
struct Frame {
  const Program *program = nullptr;
  Frame *parent = nullptr;
  uint32_t returnPc = 0, call = 0; // in the parent: where it goes on, and the index of the call
  uint32_t depth = 0;
  uint32_t lanes = 0; // that are in it or in what it called
  uint32_t localBase = 0;
  uint64_t *registers = nullptr;
  uint32_t *predicates = nullptr;
  LineCount *counts = nullptr;
  RangeState **recent = nullptr; // by instruction: the allocation that it used last
  uint32_t carry = 0;            // the condition code, a bit a lane
  std::vector<uint64_t> storage;
};

/// An asynchronous copy on its way into shared memory.
struct PendingCopy {
  uint8_t lane, size;
  uint32_t group;
  uint32_t offset;
  uint8_t bytes[16];
};

struct Block;

struct Warp {
  uint32_t number = 0;
  uint32_t live = 0; // lanes that have not exited
  uint32_t exited = 0;
  uint32_t parked = 0; // at a warp operation whose other lanes are not there yet
  uint32_t atBarrier = 0;
  uint32_t pc[32] = {};
  Frame *frame[32] = {};
  uint32_t parkMask[32] = {}; // the mask with which a parked lane waits
  uint64_t parkKey[32] = {};  // what it waits in: equal keys can complete together
  uint64_t steps = 0, lastTurn = 0;
  std::vector<std::unique_ptr<Frame>> frames, spare;
  // Happens-before: `clock` ticks at each synchronisation; accesses are stamped with it.
  uint32_t clock = 1;
  uint32_t allSeen = 0;             // all lanes have seen all others' accesses up to this clock
  std::unique_ptr<uint32_t[]> seen; // [lane][lane], when lanes synchronised in parts
  uint32_t others[32] = {};         // up to which clock the accesses of each warp are seen
  // Local memory: `localCapacity` bytes a lane, and their marks.
  uint32_t localCapacity = 0;
  std::vector<uint8_t> local, localWritten;
  std::vector<PendingCopy> copies;
  uint32_t copyGroup[32] = {}; // the group that is open
  int barrier = -1;            // which one the warp waits at, all lanes of it
  uint32_t barrierCount = 0;
  uint64_t barrierPredicates = 0;
  Block *block = nullptr;

  uint32_t runnable() const { return live & ~parked & ~atBarrier; }
  /// Whether `lane` has seen what `other` of this warp did at `clock`.
  bool laneSaw(uint32_t lane, uint32_t other, uint32_t then) const {
    return then <= allSeen || (seen && then <= seen[lane * 32 + other]);
  }
  void synchronise(uint32_t lanes); // bar.warp.sync
};

struct Barrier {
  uint32_t arrived = 0; // warps, a bit each
  uint32_t waiting = 0; // those of them that wait (arrive does not)
  uint32_t threads = 0; // arrived, a whole warp counts 32
  uint32_t count = 0;   // 0: all
  uint32_t line = 0, pc = 0;
  const Program *program = nullptr;
  uint32_t clocks[32] = {}; // joined
  uint32_t popc = 0, ones = 0, zeros = 0;
};

/// Of an allocation, in one launch.
struct RangeState {
  const Memory::Range *range = nullptr;
  Cell *cells = nullptr;
  bool constant = false;
  std::vector<uint8_t> touched; // pages of 4 KiB
};

struct Block {
  Dim3 index;
  uint32_t linear = 0;
  uint32_t threads = 0;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<uint8_t> shared, sharedWritten; // marks: 0 never, 1 written, 2 a copy is on its way
  std::vector<Cell> sharedCells;
  uint32_t generation = 0; // of the cells
  uint8_t interval = 1;    // another one after each synchronisation; never 0
  void nextInterval() { interval = interval == 255 ? 1 : uint8_t(interval + 1); }
  Barrier barriers[16];
  Dim3 thread(const Dim3 &shape, uint32_t linearThread) const {
    return {linearThread % shape.x, linearThread / shape.x % shape.y, linearThread / shape.x / shape.y};
  }
};

/// One launch.
struct Run {
  Memory &memory;
  const Launch &launch;
  Outcome &outcome;
  const KernelInfo *kernel = nullptr;
  LoadedModule::Programs *programs = nullptr;
  std::mt19937_64 random;
  bool stop = false;
  uint32_t generation = 0; // of global cells
  uint32_t sharedBytes = 0, dynamicBase = 0;
  uint64_t limit = 0;
  std::set<std::pair<std::string, uint32_t>> reported;              // kind and line: once
  std::unordered_map<uint64_t, std::unique_ptr<RangeState>> ranges; // by base
  std::vector<std::vector<LineCount>> counts;                       // by program, by instruction
  std::vector<std::vector<RangeState *>> recent; // by program, by instruction: the range it used last

  Run(Memory &m, const Launch &l, Outcome &o) : memory(m), launch(l), outcome(o), random(l.seed) {}
  void find(const Block &block, const Warp &warp, int lane, const Code &code, const Program &program, const char *kind,
            int cudaError, std::string message, bool fatal);
  /// The state of the allocation that holds an address, or null.
  RangeState *range(uint64_t address);
  Frame *enter(Warp &warp, const Program &program, Frame *parent, uint32_t lanes);
  void leave(Warp &warp, Frame *frame, uint32_t lanes);
  LineCount *countsOf(const Program &program);
  uint32_t chance(uint32_t n) { return uint32_t(random() % n); }
};

} // namespace opc::gpusim
