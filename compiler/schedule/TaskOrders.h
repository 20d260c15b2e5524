// The graph of tasks in plain indices: orders of execution, and what is alive in them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "VariableOrder.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace opc {

/// Result o of a task may lie where its operand i does: (o, i).
using OverwritePairs = std::vector<std::pair<int, int>>;

struct TaskGraph {
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  struct Task {
    llvm::ArrayRef<uint32_t> reads, makes;                    // buffers, without duplicates
    llvm::ArrayRef<uint32_t> after;                           // tasks that need this one
    uint32_t pending = 0;                                     // tasks that must come first
    llvm::ArrayRef<std::pair<uint32_t, uint32_t>> overwrites; // buffers: made in the place of read
    uint64_t workspace = 0;                                   // bytes while it runs
    uint64_t partBytes = 0;                                   // the same, as a part of a region
    bool moves = false;      // in a region it lets the loop read its operands in another order
    bool goesByRows = false; // in a region it may overwrite what was read before it, and nothing that it reads
  };
  struct Buffer {
    uint64_t bytes = 0;       // of its slot
    bool keep = false;        // sources and graph outputs
    uint64_t tensorBytes = 0; // without the slot's end
    llvm::ArrayRef<int64_t> shape;
  };
  TaskGraph() = default;
  TaskGraph(TaskGraph &&) = default; // a copy's tasks would point into the first one's lists
  TaskGraph &operator=(TaskGraph &&) = default;

  std::vector<Task> tasks;
  std::vector<Buffer> buffers;
  std::vector<uint32_t> readers; // by buffer: tasks that read it
  std::vector<uint32_t> lists;   // what the tasks point into
  Pairs pairs;
};

/// `ops` in a topological order of their data. `overwrites` gives the pairs that the kernel of an op offers.
TaskGraph makeTaskGraph(const std::vector<mlir::Operation *> &ops, const std::vector<OpOrder> &orders,
                        llvm::function_ref<OverwritePairs(uint32_t)> overwrites = nullptr);

/// Of several orders (the tasks' own if it is one, least memory first, depth first) that with the smallest peak where
/// nothing is overwritten; ties go to the first.
std::vector<uint32_t> smallestOrder(const TaskGraph &graph, bool ownOrderFits);

struct LivePeak {
  uint64_t bytes = 0;
  std::vector<uint32_t> buffers; // what is alive there
  uint32_t task = 0;             // the first that has it
};
/// The most bytes of results and of a workspace that are alive at once, where each task overwrites what it may.
/// `profile`: gets the bytes that are alive while each task of the order runs.
LivePeak livePeak(const TaskGraph &graph, const std::vector<uint32_t> &order, std::vector<uint64_t> *profile = nullptr);
/// What the memory planner needs for the results and workspaces of that order.
uint64_t arenaBytes(const TaskGraph &graph, const std::vector<uint32_t> &order);
/// The bytes of livePeak() alone; `limit` or more where they are that many.
uint64_t livePeakBytes(const TaskGraph &graph, const std::vector<uint32_t> &order, uint64_t limit = UINT64_MAX);

} // namespace opc
