// mov in all its forms, and addresses: cvta, isspacep.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Lanes.h"

namespace opc::gpusim {

namespace {

Step move(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = a[l]; });
  return Step::kNext;
}
Step readClock(Lanes &x, const Code &c) {
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = c.size == 4 ? uint32_t(x.warp.steps) : x.warp.steps; });
  return Step::kNext;
}
Step localAddress(Lanes &x, const Code &c) {
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = x.frame->localBase + uint64_t(c.value); });
  return Step::kNext;
}
/// mov.b64 d, {a, b}: c.size bytes an element.
Step pack(Lanes &x, const Code &c) {
  uint64_t *d = x.destination(c.dst);
  uint64_t packed[32] = {}, mask = c.size == 8 ? ~uint64_t(0) : (uint64_t(1) << (c.size * 8)) - 1;
  for (uint32_t i = 0; i < c.listed; ++i) {
    const uint64_t *a = x.source(x.program->slots[c.list + i]);
    for (int l = 0; l < 32; ++l) packed[l] |= (a[l] & mask) << (i * c.size * 8);
  }
  each(x.active, [&](int l) { d[l] = packed[l]; });
  return Step::kNext;
}
Step unpack(Lanes &x, const Code &c) {
  uint64_t whole[32], mask = c.size == 8 ? ~uint64_t(0) : (uint64_t(1) << (c.size * 8)) - 1;
  std::memcpy(whole, x.source(c.a), sizeof whole); // a destination may be the source
  for (uint32_t i = 0; i < c.listed; ++i) {
    uint64_t *d = x.destination(x.program->slots[c.list + i]);
    each(x.active, [&](int l) { d[l] = whole[l] >> (i * c.size * 8) & mask; });
  }
  return Step::kNext;
}

Handler mov(Decoder &d, Code &c) {
  Type t = d.type();
  if (t == Type::kPred) {
    c.detail = 4;
    c.p = d.predicateDestination(0);
    d.predicateSource(1, c);
    return [](Lanes &x, const Code &code) {
      x.setPredicate(code.p, code.paNegated ? ~x.predicate(code.pa) : x.predicate(code.pa));
      return Step::kNext;
    };
  }
  uint32_t bytes = sizeOf(t);
  if (bytes > 8) d.unsupported("128 bits");
  if (d.isVector(0)) {
    d.list(0, c, t, true);
    c.a = d.source(1, t);
    if (c.listed == 0 || bytes % c.listed) d.unsupported("a vector of this length");
    c.size = uint8_t(bytes / c.listed);
    return unpack;
  }
  c.dst = d.destination(0);
  if (d.isVector(1)) {
    d.list(1, c, t, false);
    if (c.listed == 0 || bytes % c.listed) d.unsupported("a vector of this length");
    c.size = uint8_t(bytes / c.listed);
    return pack;
  }
  const Operand &from = d.operand(1);
  if (from.kind == Operand::kSymbol) {
    bool local;
    c.value = int64_t(d.symbolValue(from.symbol, &local)) + from.value;
    if (local) return localAddress;
  }
  if (from.kind == Operand::kRegister && d.program().clocks[size_t(from.slot)]) {
    c.size = uint8_t(bytes);
    return readClock;
  }
  c.a = d.source(1, t);
  return move;
}

/// c.value is added: a window's tag, or its negative.
Step addWindow(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = a[l] + uint64_t(c.value); });
  return Step::kNext;
}
uint64_t windowOf(const Decoder &d) {
  if (d.hasPrefix("shared")) {
    if (d.has("shared::cluster")) d.unsupported("clusters");
    return kSharedWindow;
  }
  if (d.has("local")) return kLocalWindow;
  if (d.hasPrefix("param")) return kParamWindow;
  return 0;
}
Handler cvta(Decoder &d, Code &c) {
  c.dst = d.destination(0);
  c.a = d.source(1, Type::kU64);
  uint64_t window = windowOf(d);
  if (window == kParamWindow && !d.function().kernel) window = kLocalWindow;
  c.value = int64_t(d.has("to") ? uint64_t(0) - window : window);
  return addWindow;
}

/// isspacep p, a
Step isSpace(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint32_t bits = 0;
  each(x.active, [&](int l) { bits |= uint32_t((a[l] & kWindowMask) == uint64_t(c.value)) << l; });
  x.setPredicate(c.p, bits);
  return Step::kNext;
}
Step nothing(Lanes &, const Code &) { return Step::kNext; }

} // namespace

void addMoves(DecodeTable &t) {
  t["mov"] = mov;
  t["cvta"] = cvta;
  t["isspacep"] = [](Decoder &d, Code &c) -> Handler {
    c.p = d.predicateDestination(0);
    c.a = d.source(1, Type::kU64);
    c.value = int64_t(windowOf(d));
    return isSpace;
  };
  t["createpolicy"] = [](Decoder &d, Code &c) -> Handler {
    c.dst = d.destination(0), c.a = d.constant(0);
    return move;
  };
  for (const char *name : {"prefetch", "prefetchu", "applypriority", "discard", "nanosleep", "pmevent", "fence",
                           "membar", "griddepcontrol"})
    t[name] = [](Decoder &, Code &) -> Handler { return nothing; };
}

} // namespace opc::gpusim
