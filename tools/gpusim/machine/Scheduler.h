// What handlers ask of the scheduler: places of lanes, parking, barriers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Lanes.h"

namespace opc::gpusim {

/// Sets the place of some lanes of the group.
inline void place(Lanes &x, uint32_t lanes, uint32_t pc) {
  each(lanes, [&](int lane) { x.warp.pc[lane] = pc; });
}
/// For instructions that the whole warp executes as one: true when all its live lanes are here; else they wait for the
/// others, and the instruction is executed again when these are here.
bool converged(Lanes &x);

/// Lanes wait for others of the warp: in the operation `key`, with a mask.
void park(Warp &warp, uint32_t lanes, uint64_t key, const uint32_t *masks);
/// Completes what parked lanes wait for, where all are there.
void settle(Run &run, Block &block, Warp &warp);
/// One warp operation among `lanes`, which may be at different places.
void exchange(Run &run, Block &block, Warp &warp, uint32_t lanes);

/// A warp all of whose lanes wait at a barrier arrives there; barriers complete that everybody has reached.
void arrive(Run &run, Block &block, Warp &warp);
void completeBarriers(Run &run, Block &block);
/// Nobody can go on.
void reportDeadlock(Run &run, Block &block);

void runBlock(Run &run, Block &block);

} // namespace opc::gpusim
