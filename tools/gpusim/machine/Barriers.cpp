// Barriers of a block: arrival by warps, completion, what barriers order; and the analysis of blocks that stand still.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Scheduler.h"

#include <algorithm>
#include <cstdio>

namespace opc::gpusim {

namespace {

enum Kind : uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };

uint32_t valueOf(const Lanes &x, int32_t slot, int lane) {
  return slot == Code::kNoSlot ? 0 : uint32_t(x.source(slot)[lane]);
}

std::string lineText(const Frame &frame, uint32_t pc) {
  return "PTX line " + std::to_string(frame.program->code[pc].line);
}

/// Counts a warp in, with what it has seen.
void join(Barrier &b, Warp &w) {
  b.arrived |= 1u << w.number;
  b.threads += 32;
  for (int v = 0; v < 32; ++v) b.clocks[v] = std::max(b.clocks[v], w.others[v]);
  b.clocks[w.number] = std::max(b.clocks[w.number], w.clock);
}

void begin(Run &run, Block &block, const Lanes &x, Barrier &b, uint32_t count, const Code &c, int lane) {
  if (b.arrived == 0) {
    b.count = count, b.line = c.line, b.pc = x.pc, b.program = x.program;
    return;
  }
  if (b.count != count)
    x.find(lane, "barrier", kCudaLaunchFailed,
           "a barrier for " + std::to_string(count) + " threads, at which others wait (PTX line " +
               std::to_string(b.line) + ") for " + std::to_string(b.count),
           false);
  else if (count == 0 && c.detail != kArrive && (b.pc != x.pc || b.program != x.program))
    x.find(lane, "barrier", kCudaLaunchFailed,
           "threads of one block meet in different barriers: others wait at PTX line " + std::to_string(b.line), false);
}

void deliver(Warp &w, const Barrier &b) {
  for (uint32_t m = w.live & w.atBarrier; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    Frame &f = *w.frame[lane];
    const Code &c = f.program->code[w.pc[lane]];
    if (c.detail == kRedPopc) f.registers[size_t(c.dst) * 32 + size_t(lane)] = b.popc;
    if (c.detail == kRedAnd || c.detail == kRedOr) {
      bool value = c.detail == kRedAnd ? b.zeros == 0 : b.ones != 0;
      f.predicates[c.p] = (f.predicates[c.p] & ~(1u << lane)) | uint32_t(value) << lane;
    }
    ++w.pc[lane];
  }
  w.atBarrier = 0;
  w.barrier = -1;
}

void complete(Block &block, Barrier &b) {
  block.nextInterval();
  for (auto &warp : block.warps) {
    Warp &w = *warp;
    if (!(b.waiting >> w.number & 1)) continue;
    deliver(w, b);
    for (int v = 0; v < 32; ++v) w.others[v] = std::max(w.others[v], b.clocks[v]);
    w.allSeen = w.clock++;
  }
  b = Barrier{};
}

/// Threads that have exited never come to a barrier that is for all.
void checkExited(Run &run, Block &block, const Barrier &b, Warp &waiting) {
  uint32_t exited = 0, all = 0;
  for (auto &w : block.warps)
    exited += uint32_t(std::popcount(w->exited)), all += uint32_t(std::popcount(w->exited | w->live));
  if (exited == 0) return;
  int lane = std::countr_zero(waiting.live);
  Frame &f = *waiting.frame[lane];
  run.find(block, waiting, lane, f.program->code[waiting.pc[lane]], *f.program, "barrier", kCudaLaunchFailed,
           "a barrier for all " + std::to_string(all) + " threads of the block, of which " + std::to_string(exited) +
               " have exited before it",
           false);
}

Step barrier(Lanes &x, const Code &c) {
  int lane = std::countr_zero(x.active);
  uint32_t id = valueOf(x, c.a, lane), count = valueOf(x, c.b, lane);
  // Without a count a barrier is for all; bar.arrive has to have one.
  const bool none = count == 0 && (c.b != Code::kNoSlot || c.detail == kArrive);
  if (id >= 16 || count % 32 || none) {
    x.find(lane, "barrier", kCudaIllegalInstruction,
           id >= 16 ? "there are 16 barriers, this is number " + std::to_string(id)
                    : "a barrier counts whole warps, not " + std::to_string(count) + " threads");
    return Step::kReselect;
  }
  if (c.detail == kArrive) {
    if (!converged(x)) return Step::kReselect;
    Barrier &b = x.block.barriers[id];
    begin(x.run, x.block, x, b, count, c, lane);
    join(b, x.warp);
    ++x.warp.clock;
    place(x, x.group, x.pc + 1);
    completeBarriers(x.run, x.block);
    return Step::kReselect;
  }
  uint32_t predicates = c.pa < 0 ? 0 : c.paNegated ? ~x.predicate(c.pa) : x.predicate(c.pa);
  x.warp.barrierPredicates = (x.warp.barrierPredicates & ~uint64_t(x.active)) | (predicates & x.active);
  place(x, x.group & ~x.active, x.pc + 1);
  place(x, x.active, x.pc);
  x.warp.atBarrier |= x.active;
  return Step::kReselect;
}

} // namespace

void arrive(Run &run, Block &block, Warp &w) {
  if (w.live == 0 || w.barrier >= 0 || (w.atBarrier & w.live) != w.live) return;
  int lane = std::countr_zero(w.live);
  Lanes x(run, block, w);
  x.frame = w.frame[lane], x.program = x.frame->program, x.pc = w.pc[lane], x.group = x.active = w.live;
  const Code &c = x.program->code[x.pc];
  for (uint32_t m = w.live; m; m &= m - 1) {
    int other = std::countr_zero(m);
    if (w.pc[other] == x.pc && w.frame[other]->program == x.program) continue;
    x.find(lane, "barrier", kCudaLaunchFailed,
           "lanes of one warp wait at different barriers: lane " + std::to_string(other) + " at " +
               lineText(*w.frame[other], w.pc[other]),
           false);
    break;
  }
  uint32_t id = valueOf(x, c.a, lane);
  Barrier &b = block.barriers[id];
  begin(run, block, x, b, valueOf(x, c.b, lane), c, lane);
  join(b, w);
  b.waiting |= 1u << w.number;
  w.barrier = int(id);
  uint32_t ones = uint32_t(std::popcount(uint32_t(w.barrierPredicates) & w.live));
  b.popc += ones, b.ones += ones, b.zeros += uint32_t(std::popcount(w.live)) - ones;
  completeBarriers(run, block);
}

void completeBarriers(Run &run, Block &block) {
  uint32_t live = 0;
  for (auto &w : block.warps) live |= uint32_t(w->live != 0) << w->number;
  for (Barrier &b : block.barriers) {
    if (b.arrived == 0) continue;
    bool all = b.count == 0 ? (live & ~b.arrived) == 0 : b.threads >= b.count;
    if (!all) continue;
    if (b.count == 0 && b.waiting) checkExited(run, block, b, *block.warps[size_t(std::countr_zero(b.waiting))]);
    complete(block, b);
  }
}

void reportDeadlock(Run &run, Block &block) {
  auto report = [&](Warp &w, int lane, const char *kind, std::string text) {
    Frame &f = *w.frame[lane];
    run.find(block, w, lane, f.program->code[w.pc[lane]], *f.program, kind, kCudaLaunchTimeout, std::move(text), true);
  };
  for (auto &warp : block.warps) {
    Warp &w = *warp;
    if (!(w.parked & w.live)) continue;
    int lane = std::countr_zero(w.parked & w.live);
    uint32_t missing = w.parkMask[lane] & w.live;
    for (uint32_t m = missing; m; m &= m - 1)
      if (int other = std::countr_zero(m);
          (w.parked >> other & 1) && w.parkKey[other] == w.parkKey[lane] && w.parkMask[other] == w.parkMask[lane])
        missing &= ~(1u << other);
    char mask[64];
    std::snprintf(mask, sizeof mask, "waits for ever for the lanes 0x%08x of its mask 0x%08x", missing,
                  w.parkMask[lane]);
    std::string text = mask;
    if (missing) {
      int other = std::countr_zero(missing);
      text += ": lane " + std::to_string(other) + " is at " + lineText(*w.frame[other], w.pc[other]);
      if (w.parked >> other & 1)
        std::snprintf(mask, sizeof mask, " with the mask 0x%08x", w.parkMask[other]), text += mask;
    }
    return report(w, lane, "mask", text);
  }
  for (auto &warp : block.warps) {
    Warp &w = *warp;
    if (w.live == 0) continue;
    int lane = std::countr_zero(w.live);
    std::string text = "a barrier that not all threads reach";
    if (w.barrier >= 0 && block.barriers[w.barrier].count)
      text = "a barrier for " + std::to_string(block.barriers[w.barrier].count) + " threads, of which " +
             std::to_string(block.barriers[w.barrier].threads) + " arrive";
    for (auto &other : block.warps)
      if (other->live && (other->pc[std::countr_zero(other->live)] != w.pc[lane] || other->barrier != w.barrier)) {
        int o = std::countr_zero(other->live);
        text += ": warp " + std::to_string(other->number) + " waits at " + lineText(*other->frame[o], other->pc[o]);
        break;
      }
    return report(w, lane, "barrier", text);
  }
}

/// bar.sync a{, b}; bar.arrive a, b; bar.red.op d, a{, b}, {!}c
void addBarriers(DecodeTable &t) {
  t["bar"] = t["barrier"] = [](Decoder &d, Code &c) -> Handler {
    if (d.has("warp")) return decodeWarpBarrier(d, c);
    if (d.has("cluster")) d.unsupported("clusters");
    bool red = d.has("red");
    uint32_t n = red ? 1 : 0, last = d.operands() - (red ? 1 : 0);
    c.detail = d.has("arrive") ? kArrive : !red ? kSync : d.has("popc") ? kRedPopc : d.has("and") ? kRedAnd : kRedOr;
    if (red && c.detail == kRedPopc)
      c.dst = d.destination(0);
    else if (red)
      c.p = d.predicateDestination(0);
    if (red) d.predicateSource(last, c);
    c.a = d.source(n, Type::kU32);
    if (n + 1 < last) c.b = d.source(n + 1, Type::kU32);
    return barrier;
  };
}

} // namespace opc::gpusim
