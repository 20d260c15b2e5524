// Operations among lanes: shfl, vote, match, redux, bar.warp.sync. Lanes wait for those that their mask names.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Scheduler.h"

#include <algorithm>
#include <cstdio>

namespace opc::gpusim {

namespace {

enum Kind : uint8_t {
  kUp,
  kDown,
  kButterfly,
  kIndex, // shfl
  kAll,
  kAny,
  kUniform,
  kBallot, // vote
  kMatchAny,
  kMatchAll, // match
  kAddU,
  kMinU,
  kMaxU,
  kMinS,
  kMaxS,
  kAnd,
  kOr,
  kXor, // redux
  kSync,
  kElect,
};

struct Exchange {
  uint64_t a[32] = {}, b[32] = {}, c[32] = {}, out[32] = {};
  uint32_t p = 0, outP = 0;
};

const Code &codeOf(const Warp &w, int lane) { return w.frame[lane]->program->code[w.pc[lane]]; }

uint64_t read(const Frame &f, int32_t slot, int lane) {
  if (slot == Code::kNoSlot) return 0;
  return slot >= 0 ? f.registers[size_t(slot) * 32 + size_t(lane)] : f.program->constants[size_t(~slot)][size_t(lane)];
}

void gather(const Warp &w, uint32_t lanes, Exchange &e) {
  for (uint32_t m = lanes; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    const Frame &f = *w.frame[lane];
    const Code &c = codeOf(w, lane);
    e.a[lane] = read(f, c.a, lane), e.b[lane] = read(f, c.b, lane), e.c[lane] = read(f, c.c, lane);
    if (c.pa >= 0) e.p |= uint32_t((f.predicates[c.pa] >> lane & 1) != c.paNegated) << lane;
  }
}

void scatter(Warp &w, uint32_t lanes, const Exchange &e) {
  for (uint32_t m = lanes; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    Frame &f = *w.frame[lane];
    const Code &c = codeOf(w, lane);
    if (c.dst != Code::kNoSlot) f.registers[size_t(c.dst) * 32 + size_t(lane)] = e.out[lane];
    if (c.p >= 0) f.predicates[c.p] = (f.predicates[c.p] & ~(1u << lane)) | (e.outP & (1u << lane));
    ++w.pc[lane];
  }
}

void shuffle(Run &run, Block &block, Warp &w, uint32_t lanes, uint8_t kind, Exchange &e) {
  for (uint32_t m = lanes; m; m &= m - 1) {
    uint32_t lane = uint32_t(std::countr_zero(m));
    uint32_t b = e.b[lane] & 31, clamp = e.c[lane] & 31, segment = e.c[lane] >> 8 & 31;
    uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;
    int from = 0;
    bool in = false;
    switch (kind) {
    case kUp: from = int(lane) - int(b), in = from >= int(most); break;
    case kDown: from = int(lane + b), in = from <= int(most); break;
    case kButterfly: from = int(lane ^ b), in = from <= int(most); break;
    default: from = int(least | (b & ~segment)), in = from <= int(most);
    }
    if (!in) from = int(lane);
    e.outP |= uint32_t(in) << lane;
    e.out[lane] = e.a[from];
    if (lanes >> from & 1) continue;
    e.out[lane] = 0xb5b5b5b5;
    char text[128];
    std::snprintf(text, sizeof text, "shfl reads lane %d, which %s (mask 0x%08x)", from,
                  w.live >> from & 1 ? "is not in the mask" : "has exited or never was", w.parkMask[lane]);
    run.find(block, w, int(lane), codeOf(w, int(lane)), *w.frame[lane]->program, "mask", kCudaLaunchFailed, text,
             false);
  }
}

void vote(uint32_t lanes, uint8_t kind, Exchange &e) {
  uint32_t yes = e.p & lanes;
  bool result = kind == kAll ? yes == lanes : kind == kAny ? yes != 0 : yes == lanes || yes == 0;
  e.outP = result ? ~0u : 0;
  std::fill(e.out, e.out + 32, yes);
}

void match(uint32_t lanes, uint8_t kind, Exchange &e) {
  bool all = true;
  for (uint32_t m = lanes; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    uint32_t equal = 0;
    for (uint32_t n = lanes; n; n &= n - 1)
      if (int other = std::countr_zero(n); e.a[other] == e.a[lane]) equal |= 1u << other;
    e.out[lane] = equal;
    all &= equal == lanes;
  }
  if (kind == kMatchAny) return;
  e.outP = all ? ~0u : 0;
  for (uint64_t &v : e.out) v = all ? lanes : 0;
}

void reduce(uint32_t lanes, uint8_t kind, Exchange &e) {
  uint32_t r = uint32_t(e.a[std::countr_zero(lanes)]);
  for (uint32_t m = lanes & (lanes - 1); m; m &= m - 1) {
    uint32_t v = uint32_t(e.a[std::countr_zero(m)]);
    switch (kind) {
    case kAddU: r += v; break;
    case kMinU: r = std::min(r, v); break;
    case kMaxU: r = std::max(r, v); break;
    case kMinS: r = uint32_t(std::min(int32_t(r), int32_t(v))); break;
    case kMaxS: r = uint32_t(std::max(int32_t(r), int32_t(v))); break;
    case kAnd: r &= v; break;
    case kOr: r |= v; break;
    default: r ^= v;
    }
  }
  std::fill(e.out, e.out + 32, r);
}

uint64_t keyOf(const Code &c) { return uint64_t(c.detail) << 1 | uint64_t(c.flags) << 9 | 1; }

/// Whoever is in an operation with a mask must be in the mask.
Step operation(Lanes &x, const Code &c) {
  const uint64_t *mask = x.source(c.d);
  place(x, x.group & ~x.active, x.pc + 1);
  place(x, x.active, x.pc);
  bool simple = x.active == x.group;
  for (uint32_t left = x.active; left;) {
    int lane = std::countr_zero(left);
    uint32_t m = uint32_t(mask[lane]), same = 0, masks[32];
    for (uint32_t n = left; n; n &= n - 1)
      if (int other = std::countr_zero(n); uint32_t(mask[other]) == m) same |= 1u << other;
    left &= ~same;
    if (same & ~m) {
      char text[96];
      std::snprintf(text, sizeof text, "lanes 0x%08x take part that the mask 0x%08x does not name", same & ~m, m);
      x.find(std::countr_zero(same & ~m), "mask", kCudaLaunchFailed, text, false);
      m |= same;
    }
    std::fill(masks, masks + 32, m);
    for (uint32_t n = same; n; n &= n - 1) x.warp.parkMask[std::countr_zero(n)] = m;
    if ((m & x.warp.live) == same) {
      exchange(x.run, x.block, x.warp, same);
    } else {
      simple = false;
      park(x.warp, same, keyOf(c), masks);
    }
  }
  if (simple) return Step::kNext;
  settle(x.run, x.block, x.warp);
  return Step::kReselect;
}

Step activeMask(Lanes &x, const Code &c) {
  uint64_t *d = x.destination(c.dst);
  uint32_t m = x.active;
  each(m, [&](int lane) { d[lane] = m; });
  return Step::kNext;
}

Handler shfl(Decoder &d, Code &c) {
  if (!d.has("sync")) d.unsupported("only the .sync form is known");
  c.detail = d.has("up") ? kUp : d.has("down") ? kDown : d.has("bfly") ? kButterfly : kIndex;
  uint32_t n = d.operands() - 4; // d{|p}, a, b, c, mask
  c.dst = d.destination(0);
  if (n == 2) c.p = d.predicateDestination(1);
  c.a = d.source(n, Type::kB32), c.b = d.source(n + 1, Type::kB32), c.c = d.source(n + 2, Type::kB32),
  c.d = d.source(n + 3, Type::kB32);
  return operation;
}
Handler voteHandler(Decoder &d, Code &c) {
  if (!d.has("sync")) d.unsupported("only the .sync form is known");
  c.detail = d.has("all") ? kAll : d.has("any") ? kAny : d.has("uni") ? kUniform : kBallot;
  if (c.detail == kBallot)
    c.dst = d.destination(0);
  else
    c.p = d.predicateDestination(0);
  d.predicateSource(1, c);
  c.d = d.source(2, Type::kB32);
  return operation;
}
Handler matchHandler(Decoder &d, Code &c) {
  c.detail = d.has("all") ? kMatchAll : kMatchAny;
  uint32_t n = d.operands() - 2;
  c.dst = d.destination(0);
  if (n == 2) c.p = d.predicateDestination(1);
  c.a = d.source(n, d.type()), c.d = d.source(n + 1, Type::kB32);
  c.flags = sizeOf(d.type()) == 8;
  return operation;
}
Handler redux(Decoder &d, Code &c) {
  bool isSigned = d.type() == Type::kS32;
  if (isFloat(d.type())) d.unsupported("redux of floats");
  c.detail = d.has("add")   ? kAddU
             : d.has("min") ? (isSigned ? kMinS : kMinU)
             : d.has("max") ? (isSigned ? kMaxS : kMaxU)
             : d.has("and") ? kAnd
             : d.has("or")  ? kOr
                            : kXor;
  c.dst = d.destination(0), c.a = d.source(1, Type::kB32), c.d = d.source(2, Type::kB32);
  return operation;
}

} // namespace

void Warp::synchronise(uint32_t lanes) {
  block->nextInterval();
  if ((lanes & live) == live) {
    allSeen = clock++;
    return;
  }
  if (!seen) seen = std::make_unique<uint32_t[]>(32 * 32);
  uint32_t joined[32] = {};
  each(lanes, [&](int lane) {
    for (int v = 0; v < 32; ++v) joined[v] = std::max(joined[v], seen[size_t(lane) * 32 + size_t(v)]);
  });
  each(lanes, [&](int lane) { joined[lane] = clock; });
  each(lanes, [&](int lane) { std::copy(joined, joined + 32, &seen[size_t(lane) * 32]); });
  ++clock;
}

void exchange(Run &run, Block &block, Warp &w, uint32_t lanes) {
  Exchange e;
  gather(w, lanes, e);
  uint8_t kind = codeOf(w, std::countr_zero(lanes)).detail;
  if (kind <= kIndex)
    shuffle(run, block, w, lanes, kind, e);
  else if (kind <= kBallot)
    vote(lanes, kind, e);
  else if (kind <= kMatchAll) {
    if (!codeOf(w, std::countr_zero(lanes)).flags)
      for (uint64_t &v : e.a) v = uint32_t(v);
    match(lanes, kind, e);
  } else if (kind < kSync)
    reduce(lanes, kind, e);
  else if (kind == kSync)
    w.synchronise(lanes);
  else
    e.outP = lanes & (0u - lanes), std::fill(e.out, e.out + 32, uint64_t(std::countr_zero(lanes)));
  scatter(w, lanes, e);
}

void park(Warp &w, uint32_t lanes, uint64_t key, const uint32_t *masks) {
  w.parked |= lanes;
  each(lanes, [&](int lane) { w.parkKey[lane] = key, w.parkMask[lane] = masks[lane]; });
}

bool converged(Lanes &x) {
  Warp &w = x.warp;
  if (x.active == w.live) return true;
  place(x, x.group & ~x.active, x.pc + 1);
  place(x, x.active, x.pc);
  uint32_t masks[32];
  std::fill(masks, masks + 32, w.live);
  park(w, x.active, reinterpret_cast<uint64_t>(&x.program->code[x.pc]) & ~uint64_t(1), masks);
  settle(x.run, x.block, w);
  return false;
}

void settle(Run &run, Block &block, Warp &w) {
  w.parked &= w.live;
  for (uint32_t left = w.parked; left;) {
    int lane = std::countr_zero(left);
    uint32_t same = 0;
    for (uint32_t n = left; n; n &= n - 1)
      if (int other = std::countr_zero(n); w.parkKey[other] == w.parkKey[lane] && w.parkMask[other] == w.parkMask[lane])
        same |= 1u << other;
    left &= ~same;
    if ((w.parkMask[lane] & w.live) != same) continue;
    w.parked &= ~same;
    if (w.parkKey[lane] & 1) exchange(run, block, w, same); // the others execute their instruction again
  }
}

Handler decodeWarpBarrier(Decoder &d, Code &c) {
  c.detail = kSync;
  c.d = d.source(0, Type::kB32);
  return operation;
}

void addWarpOperations(DecodeTable &t) {
  t["shfl"] = shfl;
  t["vote"] = voteHandler;
  t["match"] = matchHandler;
  t["redux"] = redux;
  t["activemask"] = [](Decoder &d, Code &c) -> Handler {
    c.dst = d.destination(0);
    return activeMask;
  };
  t["elect"] = [](Decoder &d, Code &c) -> Handler {
    c.detail = kElect, c.dst = d.destination(0), c.p = d.predicateDestination(1), c.d = d.source(2, Type::kB32);
    return operation;
  };
}

} // namespace opc::gpusim
