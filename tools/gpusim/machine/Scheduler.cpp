// The order in which lanes, warps and instructions take their turns.
// SPDX-License-Identifier: Apache-2.0
#include "Scheduler.h"

#include <algorithm>

namespace opc::gpusim {

namespace {

/// Chooses a group among the lanes that can go on: the deepest call and the lowest instruction first, so that parted
/// lanes meet again; with a seed sometimes another.
void select(Lanes &x) {
  Warp &w = x.warp;
  uint32_t can = w.runnable();
  int best = std::countr_zero(can);
  bool other = x.run.launch.seed != 0 ? x.run.chance(4) == 0 : false;
  // Nobody starves: lanes that spin give way to those that they wait for.
  if (++w.lastTurn % 64 == 0) other = true;
  if (other) {
    uint32_t skip = uint32_t(x.run.chance(uint32_t(std::popcount(can)))), left = can;
    while (skip--) left &= left - 1;
    best = std::countr_zero(left);
  } else {
    for (uint32_t m = can & (can - 1); m; m &= m - 1) {
      int lane = std::countr_zero(m);
      uint32_t depth = w.frame[lane]->depth, deepest = w.frame[best]->depth;
      if (depth > deepest || (depth == deepest && w.pc[lane] < w.pc[best])) best = lane;
    }
  }
  x.frame = w.frame[best], x.program = x.frame->program, x.pc = w.pc[best];
  x.group = 0;
  for (uint32_t m = can; m; m &= m - 1)
    if (int lane = std::countr_zero(m); w.frame[lane] == x.frame && w.pc[lane] == x.pc) x.group |= 1u << lane;
}

void endless(Lanes &x) {
  x.active = x.group;
  x.find(std::countr_zero(x.group), "endless", kCudaLaunchTimeout,
         "the warp has executed " + std::to_string(x.warp.steps) +
             " instructions and does not end (the limit of a launch)");
}

/// Runs a warp until it cannot go on or its turn is over.
void runWarp(Run &run, Block &block, Warp &w, uint64_t turn) {
  Lanes x(run, block, w);
  select(x);
  bool fresh = true;
  for (; turn > 0; --turn) {
    const Code &c = x.program->code[x.pc];
    if (c.leader && !fresh && x.group != w.runnable()) {
      place(x, x.group, x.pc);
      select(x);
      fresh = true;
      continue;
    }
    fresh = false;
    if (++w.steps > run.limit) return endless(x);
    x.active = c.guard < 0 ? x.group : x.group & (c.guardNegated ? ~x.predicate(c.guard) : x.predicate(c.guard));
    LineCount &count = x.frame->counts[x.pc];
    ++count.instructions;
    count.lanes += uint32_t(std::popcount(x.active));
    Step step = x.active ? c.run(x, c) : Step::kNext;
    if (step == Step::kNext) {
      ++x.pc;
    } else if (step == Step::kReselect) {
      if (run.stop) return;
      if (w.exited || w.parked) settle(run, block, w);
      if (!w.runnable()) return;
      select(x);
      fresh = true;
    }
  }
  place(x, x.group, x.pc);
}

void special(Run &run, const Block &b, const Warp &w, Special what, uint64_t *lanes) {
  const Launch &l = run.launch;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    Dim3 t = b.thread(l.block, w.number * 32 + lane);
    uint64_t v = 0;
    switch (what) {
    case Special::kTidX: v = t.x; break;
    case Special::kTidY: v = t.y; break;
    case Special::kTidZ: v = t.z; break;
    case Special::kNtidX: v = l.block.x; break;
    case Special::kNtidY: v = l.block.y; break;
    case Special::kNtidZ: v = l.block.z; break;
    case Special::kCtaidX: v = b.index.x; break;
    case Special::kCtaidY: v = b.index.y; break;
    case Special::kCtaidZ: v = b.index.z; break;
    case Special::kNctaidX: v = l.grid.x; break;
    case Special::kNctaidY: v = l.grid.y; break;
    case Special::kNctaidZ: v = l.grid.z; break;
    case Special::kLaneid: v = lane; break;
    case Special::kWarpid: v = w.number; break;
    case Special::kNwarpid: v = b.warps.size(); break;
    case Special::kWarpSize: v = 32; break;
    case Special::kNsmid: v = 1; break;
    case Special::kLanemaskEq: v = 1u << lane; break;
    case Special::kLanemaskLe: v = (2u << lane) - 1; break;
    case Special::kLanemaskLt: v = (1u << lane) - 1; break;
    case Special::kLanemaskGe: v = ~((1u << lane) - 1); break;
    case Special::kLanemaskGt: v = ~((2u << lane) - 1); break;
    case Special::kDynamicShared: v = l.dynamicShared; break;
    case Special::kTotalShared: v = run.sharedBytes; break;
    default: break;
    }
    lanes[lane] =
        what == Special::kLanemaskGe || what == Special::kLanemaskGt || what == Special::kLanemaskLe ? uint32_t(v) : v;
  }
}

void startWarp(Run &run, Block &block, Warp &w, const Program &program) {
  uint32_t first = w.number * 32, count = std::min(32u, block.threads - first);
  w.live = count == 32 ? ~0u : (1u << count) - 1;
  w.exited = w.parked = w.atBarrier = 0;
  w.steps = w.lastTurn = 0;
  w.clock = 1, w.allSeen = 0, w.seen.reset();
  w.copies.clear();
  w.barrier = -1, w.barrierPredicates = 0;
  std::fill(w.others, w.others + 32, 0);
  std::fill(w.copyGroup, w.copyGroup + 32, 0);
  for (auto &f : w.frames) w.spare.push_back(std::move(f));
  w.frames.clear();
  Frame *frame = run.enter(w, program, nullptr, w.live);
  for (int lane = 0; lane < 32; ++lane) w.frame[lane] = frame, w.pc[lane] = 0;
}

} // namespace

Frame *Run::enter(Warp &w, const Program &program, Frame *parent, uint32_t lanes) {
  std::unique_ptr<Frame> frame;
  for (auto &s : w.spare)
    if (s->program == &program) {
      std::swap(s, w.spare.back());
      frame = std::move(w.spare.back());
      w.spare.pop_back();
      break;
    }
  const Function &f = *program.function;
  size_t registers = (size_t(f.slots) + 1) * 32, predicates = size_t(f.predicates) + 2;
  if (!frame) frame = std::make_unique<Frame>();
  // One slot and one predicate more for what is not wanted, one predicate that is never set.
  frame->storage.assign(registers + (predicates + 1) / 2, 0);
  frame->program = &program, frame->parent = parent, frame->lanes = lanes, frame->carry = 0;
  frame->registers = frame->storage.data();
  frame->predicates = reinterpret_cast<uint32_t *>(frame->registers + registers);
  frame->depth = parent ? parent->depth + 1 : 0;
  frame->localBase = parent ? (parent->localBase + parent->program->function->localBytes + 15) / 16 * 16 : 0;
  frame->counts = countsOf(program);
  frame->recent = recent[program.number].data();
  for (auto [slot, what] : f.specials) special(*this, *w.block, w, what, frame->registers + size_t(slot) * 32);
  uint32_t need = frame->localBase + f.localBytes;
  if (need > w.localCapacity) {
    uint32_t bigger = std::max(need, w.localCapacity * 2), old = w.localCapacity;
    // A few bytes more: arguments of printf are read as eight bytes each.
    std::vector<uint8_t> bytes(size_t(bigger) * 32 + 16, 0xb5), marks(size_t(bigger) * 32 + 16, 0);
    for (uint32_t lane = 0; lane < 32 && old; ++lane) {
      std::copy_n(&w.local[size_t(lane) * old], old, &bytes[size_t(lane) * bigger]);
      std::copy_n(&w.localWritten[size_t(lane) * old], old, &marks[size_t(lane) * bigger]);
    }
    w.local.swap(bytes), w.localWritten.swap(marks);
    w.localCapacity = bigger;
  }
  if (f.localBytes)
    each(lanes, [&](int lane) {
      std::memset(&w.localWritten[size_t(lane) * w.localCapacity + frame->localBase], 0, f.localBytes);
    });
  w.frames.push_back(std::move(frame));
  return w.frames.back().get();
}

void Run::leave(Warp &w, Frame *frame, uint32_t lanes) {
  frame->lanes &= ~lanes;
  if (frame->lanes) return;
  auto it = std::find_if(w.frames.begin(), w.frames.end(), [&](const auto &f) { return f.get() == frame; });
  if (it == w.frames.end()) return;
  std::swap(*it, w.frames.back());
  w.spare.push_back(std::move(w.frames.back()));
  w.frames.pop_back();
}

void runBlock(Run &run, Block &block) {
  const Program &program = *run.programs->program(run.programs->numbers.at(run.kernel->name));
  ++block.generation;
  block.nextInterval();
  std::fill(block.shared.begin(), block.shared.end(), 0xb5);
  std::fill(block.sharedWritten.begin(), block.sharedWritten.end(), 0);
  for (Barrier &b : block.barriers) b = Barrier{};
  for (auto &w : block.warps) startWarp(run, block, *w, program);
  std::vector<Warp *> ready;
  while (!run.stop) {
    ready.clear();
    bool live = false;
    for (auto &w : block.warps) {
      live |= w->live != 0;
      if (w->runnable()) ready.push_back(w.get());
    }
    if (!live) return;
    if (ready.empty()) return reportDeadlock(run, block);
    bool random = run.launch.seed != 0;
    Warp &w = *ready[random ? run.chance(uint32_t(ready.size())) : 0];
    runWarp(run, block, w, random ? 1 + run.chance(128) : ~uint64_t(0));
    if (run.stop) return;
    if (w.live == 0)
      completeBarriers(run, block);
    else
      arrive(run, block, w);
  }
}

} // namespace opc::gpusim
