// Regions that would raise the peak of memory are taken apart again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JoinedTasks.h"

namespace opc {

/// Of `regions` those that may stay: the last joins of those that have to do with the peak are undone until the graph
/// needs no more memory than it does without any, by the orders that the scheduler would choose and the tensors that
/// kernels overwrite. `ownOrderFits` says whether the ops' own order follows all edges. The answer is in an order that
/// does.
std::vector<uint32_t> keepPeak(const TaskGraph &graph, const std::vector<RegionJoin> &joins, JoinedTasks *tasks,
                               std::vector<uint32_t> regions, bool ownOrderFits);

/// The most bytes that are alive at once: of the ops one by one, or of regions.
uint64_t leastPeak(const TaskGraph &graph, bool ownOrderFits);

} // namespace opc
