// Bits: logic, shifts, fields, permutations.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Lanes.h"

#include <algorithm>

namespace opc::gpusim {

namespace {

/// One result from up to three sources, all as 64 bits; `F` cuts to what it wants.
template <class F> Step bits(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c), *f = x.source(c.d);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = F::apply(a[l], b[l], e[l], f[l], c); });
  return Step::kNext;
}
#define OPC_BITS(NAME, ...)                                                                                            \
  struct NAME {                                                                                                        \
    static uint64_t apply([[maybe_unused]] uint64_t a, [[maybe_unused]] uint64_t b, [[maybe_unused]] uint64_t e,       \
                          [[maybe_unused]] uint64_t f, [[maybe_unused]] const Code &c) __VA_ARGS__                     \
  };

// c.size is the width in bytes; registers above it are zero.
uint64_t cut(uint64_t v, const Code &c) { return c.size == 8 ? v : v & ((uint64_t(1) << (c.size * 8)) - 1); }
int64_t extend(uint64_t v, const Code &c) {
  int shift = 64 - c.size * 8;
  return int64_t(v << shift) >> shift;
}

OPC_BITS(And, { return a & b; })
OPC_BITS(Or, { return a | b; })
OPC_BITS(Xor, { return a ^ b; })
OPC_BITS(Not, { return cut(~a, c); })
OPC_BITS(Cnot, { return cut(a, c) == 0; })
OPC_BITS(Shl, { return uint32_t(b) >= c.size * 8u ? 0 : cut(a << uint32_t(b), c); })
OPC_BITS(ShrU, { return uint32_t(b) >= c.size * 8u ? 0 : cut(a, c) >> uint32_t(b); })
OPC_BITS(ShrS, { return cut(uint64_t(extend(a, c) >> std::min<uint32_t>(uint32_t(b), 63)), c); })
OPC_BITS(Popc, { return uint64_t(__builtin_popcountll(cut(a, c))); })
OPC_BITS(Clz, { return cut(a, c) == 0 ? c.size * 8u : uint64_t(__builtin_clzll(cut(a, c))) - (64 - c.size * 8u); })
OPC_BITS(Brev, {
  uint64_t v = __builtin_bitreverse64(a);
  return c.size == 8 ? v : v >> 32;
})
OPC_BITS(Bfind, { // flags: 1 signed, 2 shift amount
  uint64_t v = cut(a, c);
  if ((c.flags & 1) && extend(a, c) < 0) v = cut(~a, c);
  if (v == 0) return 0xffffffff;
  uint32_t top = 63 - uint32_t(__builtin_clzll(v));
  return c.flags & 2 ? c.size * 8u - 1 - top : top;
})
OPC_BITS(Bfe, { // flags: 1 signed
  uint32_t pos = b & 255, len = e & 255, width = c.size * 8u, top = width - 1;
  if (len == 0) return 0;
  uint64_t v = cut(a, c);
  bool sign = (c.flags & 1) && (v >> std::min(pos + len - 1, top) & 1);
  uint64_t field = pos >= width ? 0 : v >> pos;
  uint32_t have = pos >= width ? 0 : std::min(len, width - pos);
  if (have < 64) field &= (uint64_t(1) << have) - 1;
  if (sign && have < 64) field |= ~uint64_t(0) << have;
  return cut(field, c);
})
OPC_BITS(Bfi, { // a into b at e, f bits
  uint32_t pos = e & 255, len = f & 255, width = c.size * 8u;
  if (pos >= width || len == 0) return b;
  len = std::min(len, width - pos);
  uint64_t mask = (len == 64 ? ~uint64_t(0) : (uint64_t(1) << len) - 1) << pos;
  return cut((b & ~mask) | ((a << pos) & mask), c);
})
OPC_BITS(Bmsk, { // flags: 1 wrap
  uint32_t pos = uint32_t(a), len = uint32_t(b);
  if (c.flags & 1) pos &= 31, len &= 31;
  if (pos >= 32) return 0;
  uint64_t ones = len >= 32 ? 0xffffffffu : (uint64_t(1) << len) - 1;
  return uint32_t(ones << pos);
})
OPC_BITS(Szext, { // flags: 1 wrap, 2 signed
  uint32_t n = uint32_t(b);
  if (c.flags & 1) n &= 31;
  if (n >= 32) return a;
  if (n == 0) return 0;
  return c.flags & 2 ? uint32_t(int32_t(uint32_t(a) << (32 - n)) >> (32 - n)) : a & ((1u << n) - 1);
})
OPC_BITS(Lop3, {
  uint32_t r = 0, x = uint32_t(a), y = uint32_t(b), z = uint32_t(e);
  for (int i = 0; i < 8; ++i)
    if (c.value >> i & 1) r |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
  return r;
})
OPC_BITS(ShfLeft, { // flags: 1 wrap
  uint32_t n = c.flags & 1 ? e & 31 : std::min<uint32_t>(uint32_t(e), 32);
  return n == 0 ? b : n == 32 ? a : uint32_t(uint32_t(b) << n | uint32_t(a) >> (32 - n));
})
OPC_BITS(ShfRight, {
  uint32_t n = c.flags & 1 ? e & 31 : std::min<uint32_t>(uint32_t(e), 32);
  return n == 0 ? a : n == 32 ? b : uint32_t(uint32_t(a) >> n | uint32_t(b) << (32 - n));
})
OPC_BITS(Prmt, {
  uint64_t bytes = (a & 0xffffffff) | b << 32, r = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t s = e >> (4 * i) & 15;
    uint32_t byte = bytes >> (8 * (s & 7)) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    r |= uint64_t(byte) << (8 * i);
  }
  return r;
})
OPC_BITS(PrmtMode, { // detail: 0 f4e, 1 b4e, 2 rc8, 3 ecl, 4 ecr, 5 rc16
  static const uint16_t kSelect[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                         {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                         {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
  return Prmt::apply(a, b, kSelect[c.detail][e & 3], 0, c);
})
OPC_BITS(Fns, {
  uint32_t mask = uint32_t(a), base = b & 31;
  int32_t n = int32_t(uint32_t(e));
  if (n == 0) return mask >> base & 1 ? base : 0xffffffff;
  int step = n > 0 ? 1 : -1, left = n > 0 ? n : -n;
  for (int at = int(base); at >= 0 && at < 32; at += step)
    if ((mask >> at & 1) && --left == 0) return uint64_t(at);
  return 0xffffffff;
})

void operands(Decoder &d, Code &c, Type t) {
  int32_t zero = d.constant(0);
  c.dst = d.destination(0);
  c.size = uint8_t(sizeOf(t));
  uint32_t n = d.operands();
  c.a = d.source(1, t);
  c.b = n > 2 ? d.source(2, t) : zero;
  c.c = n > 3 ? d.source(3, t) : zero;
  c.d = n > 4 ? d.source(4, t) : zero;
}

/// and, or, xor, not of predicates. detail: 0 and, 1 or, 2 xor, 3 not, 4 the same.
Step predicateLogic(Lanes &x, const Code &c) {
  auto read = [&](int32_t slot, bool negated) { return negated ? ~x.predicate(slot) : x.predicate(slot); };
  uint32_t a = read(c.a, c.flags & 1), b = c.detail < 3 ? read(c.b, c.flags & 2) : 0;
  x.setPredicate(c.p, c.detail == 0 ? a & b : c.detail == 1 ? a | b : c.detail == 2 ? a ^ b : c.detail == 3 ? ~a : a);
  return Step::kNext;
}

Handler logicOfPredicates(Decoder &d, Code &c, uint8_t detail) {
  c.detail = detail;
  c.p = d.predicateDestination(0);
  d.predicateSource(1, c);
  c.a = c.pa, c.flags = c.paNegated;
  if (detail < 3) {
    d.predicateSource(2, c);
    c.b = c.pa, c.flags |= uint8_t(c.paNegated << 1);
  }
  return predicateLogic;
}

template <class F, int Detail> Handler logic(Decoder &d, Code &c) {
  if (d.type() == Type::kPred) return logicOfPredicates(d, c, Detail);
  operands(d, c, d.type());
  return bits<F>;
}
template <class F> Handler simple(Decoder &d, Code &c) {
  operands(d, c, d.type());
  Type t = d.type();
  c.flags = t == Type::kS32 || t == Type::kS64;
  return bits<F>;
}

Handler funnel(Decoder &d, Code &c) {
  operands(d, c, Type::kB32);
  c.flags = d.has("wrap");
  return d.has("l") ? bits<ShfLeft> : bits<ShfRight>;
}

Handler permute(Decoder &d, Code &c) {
  operands(d, c, Type::kB32);
  constexpr std::string_view kModes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (uint8_t i = 0; i < 6; ++i)
    if (d.has(kModes[i])) {
      c.detail = i;
      return bits<PrmtMode>;
    }
  return bits<Prmt>;
}

} // namespace

void addBits(DecodeTable &t) {
  t["and"] = logic<And, 0>;
  t["or"] = logic<Or, 1>;
  t["xor"] = logic<Xor, 2>;
  t["not"] = logic<Not, 3>;
  t["cnot"] = simple<Cnot>;
  t["shl"] = simple<Shl>;
  t["shr"] = [](Decoder &d, Code &c) -> Handler {
    operands(d, c, d.type());
    Type k = d.type();
    return k == Type::kS16 || k == Type::kS32 || k == Type::kS64 ? bits<ShrS> : bits<ShrU>;
  };
  t["popc"] = simple<Popc>;
  t["clz"] = simple<Clz>;
  t["brev"] = simple<Brev>;
  t["bfe"] = simple<Bfe>;
  t["bfi"] = simple<Bfi>;
  t["fns"] = simple<Fns>;
  t["shf"] = funnel;
  t["prmt"] = permute;
  t["bfind"] = [](Decoder &d, Code &c) -> Handler {
    simple<Bfind>(d, c);
    c.flags |= uint8_t(d.has("shiftamt") << 1);
    return bits<Bfind>;
  };
  t["bmsk"] = [](Decoder &d, Code &c) -> Handler {
    operands(d, c, Type::kB32);
    c.flags = d.has("wrap");
    return bits<Bmsk>;
  };
  t["szext"] = [](Decoder &d, Code &c) -> Handler {
    operands(d, c, Type::kB32);
    c.flags = uint8_t(d.has("wrap") | (d.type() == Type::kS32) << 1);
    return bits<Szext>;
  };
  t["lop3"] = [](Decoder &d, Code &c) -> Handler {
    if (d.operands() != 5) d.unsupported("the form with a predicate");
    operands(d, c, Type::kB32);
    c.value = d.immediate(4);
    return bits<Lop3>;
  };
}

} // namespace opc::gpusim
