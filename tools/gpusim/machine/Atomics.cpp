// atom and red over global and shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "Access.h"
#include "Decoder.h"
#include "SmallFloats.h"

#include <algorithm>

namespace opc::gpusim {

namespace {

enum Op : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor, kExchange, kCompare, kIncrement, kDecrement };

template <class T> uint64_t integers(uint8_t op, uint64_t old, uint64_t b, uint64_t e) {
  using U = std::make_unsigned_t<T>;
  T o = T(old), v = T(b);
  switch (op) {
  case kAdd: return U(U(o) + U(v));
  case kMin: return U(std::min(o, v));
  case kMax: return U(std::max(o, v));
  case kAnd: return U(o & v);
  case kOr: return U(o | v);
  case kXor: return U(o ^ v);
  case kExchange: return U(v);
  case kCompare: return U(o == v ? T(e) : o);
  case kIncrement: return U(U(o) >= U(v) ? 0 : U(o) + 1);
  default: return U(U(o) == 0 || U(o) > U(v) ? U(v) : U(U(o) - 1));
  }
}
uint16_t halves(bool bfloat, uint8_t op, uint16_t a, uint16_t b) {
  float u = bfloat ? bfloatToFloat(a) : halfToFloat(a), v = bfloat ? bfloatToFloat(b) : halfToFloat(b);
  double r = op == kAdd ? fmaToOdd(u, 1, v) : op == kMin ? std::fmin(u, v) : std::fmax(u, v);
  return uint16_t(r != r ? 0x7fff : toFormat(r, bfloat ? kBfloatFormat : kHalfFormat, Rounding::kNearestEven, false));
}
/// The new value. `kind`: the type.
uint64_t change(Type kind, uint8_t op, uint64_t old, uint64_t b, uint64_t e) {
  switch (kind) {
  case Type::kF32:
    if (op == kAdd) return put<float>(get<float>(old) + get<float>(b));
    return integers<uint32_t>(op, old, b, e);
  case Type::kF64:
    if (op == kAdd) return put<double>(get<double>(old) + get<double>(b));
    return integers<uint64_t>(op, old, b, e);
  case Type::kF16:
  case Type::kBf16: return halves(kind == Type::kBf16, op, uint16_t(old), uint16_t(b));
  case Type::kF16x2:
  case Type::kBf16x2: {
    bool bfloat = kind == Type::kBf16x2;
    return halves(bfloat, op, uint16_t(old), uint16_t(b)) |
           uint64_t(halves(bfloat, op, uint16_t(old >> 16), uint16_t(b >> 16))) << 16;
  }
  case Type::kS32: return integers<int32_t>(op, old, b, e);
  case Type::kS64: return integers<int64_t>(op, old, b, e);
  case Type::kB16: return integers<uint16_t>(op, old, b, e);
  case Type::kB64:
  case Type::kU64: return integers<uint64_t>(op, old, b, e);
  default: return integers<uint32_t>(op, old, b, e);
  }
}

/// detail: the operation; vector: the Type; flags 1: the old value is wanted.
Step atomic(Lanes &x, const Code &c) {
  const uint64_t *base = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t olds[32], globals[32], shareds[32];
  uint32_t global = 0, shared = 0;
  for (uint32_t m = x.active; m; m &= m - 1) {
    int lane = std::countr_zero(m);
    Want want;
    want.space = c.space, want.size = c.size, want.use = Use::kAtomic, want.strong = true;
    want.address = base[lane] + uint64_t(c.value);
    if (c.space == Space::kShared) want.address = uint32_t(want.address);
    std::byte *at = reach(x, lane, want);
    if (!at) return Step::kReselect;
    if (want.space == Space::kShared)
      shareds[shared++] = want.address;
    else
      globals[global++] = want.address;
    uint64_t old = 0;
    std::memcpy(&old, at, c.size);
    uint64_t now = change(Type(c.vector), c.detail & 0x7f, old, b[lane], e[lane]);
    std::memcpy(at, &now, c.size);
    olds[lane] = old;
  }
  if (c.flags & 1) {
    uint64_t *d = x.destination(c.dst);
    each(x.active, [&](int lane) { d[lane] = olds[lane]; });
  }
  countGlobal(x.count(), globals, global, c.size, true);
  countShared(x.count(), shareds, shared, c.size);
  return Step::kNext;
}

Handler decode(Decoder &d, Code &c, bool result) {
  constexpr std::pair<std::string_view, uint8_t> kOps[] = {
      {"add", kAdd}, {"min", kMin},       {"max", kMax},     {"and", kAnd},       {"or", kOr},
      {"xor", kXor}, {"exch", kExchange}, {"cas", kCompare}, {"inc", kIncrement}, {"dec", kDecrement}};
  if (d.has("async")) d.unsupported("asynchronous reductions");
  uint8_t op = 255;
  for (auto [name, code] : kOps)
    if (d.has(name)) op = code;
  if (op == 255) d.unsupported("no operation");
  Type t = d.type();
  uint32_t first = result ? 1 : 0;
  if (d.isVector(first + 1)) d.unsupported("vectors");
  bool small = t == Type::kF16 || t == Type::kF16x2 || t == Type::kBf16 || t == Type::kBf16x2;
  if (sizeOf(t) > 8 || (small && op > kMax) || (isFloat(t) && !small && op != kAdd && op != kExchange))
    d.unsupported("this operation of this type");
  d.address(first, c, spaceOf(d));
  if (c.space == Space::kLocal || c.space == Space::kParam || c.space == Space::kConst) d.unsupported("this memory");
  if (result) c.dst = d.destination(0);
  c.b = d.source(first + 1, t);
  c.c = op == kCompare ? d.source(first + 2, t) : d.constant(0);
  c.size = uint8_t(sizeOf(t)), c.vector = uint8_t(t), c.detail = op, c.flags = result;
  return atomic;
}

} // namespace

void addAtomics(DecodeTable &t) {
  t["atom"] = [](Decoder &d, Code &c) { return decode(d, c, true); };
  t["red"] = [](Decoder &d, Code &c) { return decode(d, c, false); };
}

} // namespace opc::gpusim
