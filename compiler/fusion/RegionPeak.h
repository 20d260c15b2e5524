// Regions that would raise the peak of memory are taken apart again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TaskOrders.h"

namespace opc {

/// A region as it came about: one op, or two regions joined.
struct RegionJoin {
  std::vector<uint32_t> members;   // ops, sorted
  int32_t first = -1, second = -1; // the joined ones, in the list of joins
};

/// Of `regions` (places in `joins`, together all ops of `graph`) those that may stay: the last joins of those that have
/// to do with the peak are undone until the graph needs no more memory than it does without any, by the orders that the
/// scheduler would choose and the tensors that kernels overwrite. `rank` is an order of the ops that follows all edges;
/// `ownOrderFits` says whether their own order does. The answer is in an order that follows all edges.
std::vector<uint32_t> keepPeak(const TaskGraph &graph, const std::vector<RegionJoin> &joins,
                               std::vector<uint32_t> regions, const std::vector<size_t> &rank, bool ownOrderFits);

/// The most bytes that are alive at once: of the ops one by one, and of regions that follow all edges in their order.
uint64_t leastPeak(const TaskGraph &graph, bool ownOrderFits);
uint64_t regionsPeak(const TaskGraph &graph, const std::vector<RegionJoin> &joins,
                     const std::vector<uint32_t> &regions);

} // namespace opc
