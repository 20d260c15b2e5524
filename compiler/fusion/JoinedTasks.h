// The graph of tasks where regions are one task each, made again and again while joins are tried.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TaskOrders.h"

#include "llvm/Support/Allocator.h"

namespace opc {

/// A region as it came about: one op, or two regions joined.
struct RegionJoin {
  std::vector<uint32_t> members;   // ops, sorted
  int32_t first = -1, second = -1; // the joined ones, in the list of joins
};

/// Graphs of regions, which are places in `joins` and together all ops of `graph`. What a region reads, makes and
/// overwrites follows from its ops and is found once.
class JoinedTasks {
public:
  /// `rank`: by op, its place in an order that follows all edges.
  JoinedTasks(const TaskGraph &graph, const std::vector<RegionJoin> &joins, const std::vector<size_t> &rank)
      : graph_(graph), joins_(joins), rank_(rank), groupOf_(graph.tasks.size()) {}

  /// Orders regions along the edges, else by the place of their last op.
  void sort(std::vector<uint32_t> *regions);

  /// The graph in which each region is a task; `regions` in an order that follows the graph's edges. A buffer that only
  /// its own region reads is none. Stands until the next call.
  const TaskGraph &contract(const std::vector<uint32_t> &regions);

  /// Joins from this place on are others now.
  void forget(size_t from) {
    if (facts_.size() > from) facts_.resize(from);
  }

private:
  struct Facts {
    bool known = false;
    size_t place = 0;               // of its last op in the order of ops
    llvm::ArrayRef<uint32_t> after; // ops outside that need one of its own
    TaskGraph::Task task;           // what it reads, makes and overwrites
  };
  const Facts &factsOf(uint32_t region);
  void findReadsAndMakes(const RegionJoin &join, Facts *facts);
  void findOverwrites(const RegionJoin &join, Facts *facts);
  void findEdges(const std::vector<uint32_t> &regions);
  template <typename T> llvm::ArrayRef<T> keep(const std::vector<T> &list) {
    return llvm::ArrayRef<T>(list).copy(storage_);
  }

  const TaskGraph &graph_;
  const std::vector<RegionJoin> &joins_;
  const std::vector<size_t> &rank_;
  std::vector<Facts> facts_; // by region
  llvm::BumpPtrAllocator storage_;
  std::vector<uint32_t> groupOf_;                // by op: the place of its region among those of the last call
  std::vector<uint32_t> afterAt_, after_, seen_; // edges between these: those of i from afterAt_[i] to afterAt_[i + 1]
  std::vector<uint32_t> pending_;
  TaskGraph joined_;
};

} // namespace opc
