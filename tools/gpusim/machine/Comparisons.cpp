// setp, set, selp, slct.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Lanes.h"
#include "SmallFloats.h"

namespace opc::gpusim {

namespace {

enum Compare : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };
enum Combine : uint8_t { kAlone, kAnd, kOr, kXor };
constexpr uint8_t kFlushBit = 1, kNumber = 4, kPair = 8;

template <class T, int Op> bool holds(T a, T b) {
  [[maybe_unused]] bool nan = a != a || b != b;
  if constexpr (Op == kEq)
    return a == b;
  else if constexpr (Op == kNe)
    return a != b && !nan;
  else if constexpr (Op == kLt)
    return a < b;
  else if constexpr (Op == kLe)
    return a <= b;
  else if constexpr (Op == kGt)
    return a > b;
  else if constexpr (Op == kGe)
    return a >= b;
  else if constexpr (Op == kEqu)
    return nan || a == b;
  else if constexpr (Op == kNeu)
    return a != b;
  else if constexpr (Op == kLtu)
    return nan || a < b;
  else if constexpr (Op == kLeu)
    return nan || a <= b;
  else if constexpr (Op == kGtu)
    return nan || a > b;
  else if constexpr (Op == kGeu)
    return nan || a >= b;
  else if constexpr (Op == kNum)
    return !nan;
  else
    return nan;
}

template <class T> T value(uint64_t bits, const Code &c) {
  T v = get<T>(bits);
  if constexpr (std::is_same_v<T, float>)
    if (c.flags & kFlushBit) v = __builtin_fabsf(v) < 0x1p-126f ? 0.0f : v;
  return v;
}
/// f16 and bf16 compare as floats.
struct HalfValue {};
struct BfloatValue {};
template <class T> auto load(uint64_t bits, const Code &c) {
  if constexpr (std::is_same_v<T, HalfValue>)
    return halfToFloat(uint16_t(bits));
  else if constexpr (std::is_same_v<T, BfloatValue>)
    return bfloatToFloat(uint16_t(bits));
  else
    return value<T>(bits, c);
}

/// The second result of setp is the complement of the comparison, combined alike.
void store(Lanes &x, const Code &c, uint32_t yes, uint32_t no) {
  if (uint8_t combine = c.detail >> 4; combine != kAlone) {
    uint32_t other = c.paNegated ? ~x.predicate(c.pa) : x.predicate(c.pa);
    yes = combine == kAnd ? yes & other : combine == kOr ? yes | other : yes ^ other;
    no = combine == kAnd ? no & other : combine == kOr ? no | other : no ^ other;
  }
  if (c.flags & kNumber) {
    uint64_t *d = x.destination(c.dst), one = uint64_t(c.value);
    each(x.active,
         [&](int l) { d[l] = (yes >> l & 1 ? one : 0) | ((c.flags & kPair) && (no >> l & 1) ? one << 16 : 0); });
    return;
  }
  x.setPredicate(c.p, yes);
  if (c.q >= 0) x.setPredicate(c.q, no);
}

template <class T, int Op> Step compare(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint32_t bits = 0;
  each(x.active,
       [&](int l) { bits |= uint32_t(holds<decltype(load<T>(0, c)), Op>(load<T>(a[l], c), load<T>(b[l], c))) << l; });
  store(x, c, bits, ~bits);
  return Step::kNext;
}
/// Of pairs: p for the lower half, q for the upper.
template <class T, int Op> Step comparePair(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint32_t low = 0, high = 0;
  each(x.active, [&](int l) {
    low |= uint32_t(holds<float, Op>(load<T>(a[l], c), load<T>(b[l], c))) << l;
    high |= uint32_t(holds<float, Op>(load<T>(a[l] >> 16, c), load<T>(b[l] >> 16, c))) << l;
  });
  store(x, c, low, high);
  return Step::kNext;
}

template <class T, bool Pair> Handler withOp(uint8_t op) {
#define OPC_CASE(NAME)                                                                                                 \
  case NAME:                                                                                                           \
    if constexpr (Pair)                                                                                                \
      return comparePair<T, NAME>;                                                                                     \
    else                                                                                                               \
      return compare<T, NAME>;
  switch (op) {
    OPC_CASE(kEq)
    OPC_CASE(kNe)
    OPC_CASE(kLt)
    OPC_CASE(kLe)
    OPC_CASE(kGt)
    OPC_CASE(kGe)
    OPC_CASE(kEqu)
    OPC_CASE(kNeu) OPC_CASE(kLtu) OPC_CASE(kLeu) OPC_CASE(kGtu) OPC_CASE(kGeu) OPC_CASE(kNum) OPC_CASE(kNan)
  }
  throw Unsupported{"no comparison"};
}
Handler withType(Type t, uint8_t op) {
  switch (t) {
  case Type::kU16:
  case Type::kB16: return withOp<uint16_t, false>(op);
  case Type::kS16: return withOp<int16_t, false>(op);
  case Type::kU32:
  case Type::kB32: return withOp<uint32_t, false>(op);
  case Type::kS32: return withOp<int32_t, false>(op);
  case Type::kU64:
  case Type::kB64: return withOp<uint64_t, false>(op);
  case Type::kS64: return withOp<int64_t, false>(op);
  case Type::kF32: return withOp<float, false>(op);
  case Type::kF64: return withOp<double, false>(op);
  case Type::kF16: return withOp<HalfValue, false>(op);
  case Type::kBf16: return withOp<BfloatValue, false>(op);
  case Type::kF16x2: return withOp<HalfValue, true>(op);
  case Type::kBf16x2: return withOp<BfloatValue, true>(op);
  default: throw Unsupported{"no type that can be compared"};
  }
}

uint8_t comparison(const Decoder &d) {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {
      {"eq", kEq},   {"ne", kNe},   {"lt", kLt},   {"le", kLe},   {"gt", kGt},   {"ge", kGe},
      {"lo", kLt},   {"ls", kLe},   {"hi", kGt},   {"hs", kGe},   {"equ", kEqu}, {"neu", kNeu},
      {"ltu", kLtu}, {"leu", kLeu}, {"gtu", kGtu}, {"geu", kGeu}, {"num", kNum}, {"nan", kNan}};
  for (auto [name, op] : kNames)
    if (d.has(name)) return op;
  d.unsupported("no comparison");
}
uint8_t combination(const Decoder &d) { return d.has("and") ? kAnd : d.has("or") ? kOr : d.has("xor") ? kXor : kAlone; }

/// setp.lt.s32 p|q, a, b, c
Handler setp(Decoder &d, Code &c) {
  Type t = d.type();
  uint8_t combine = combination(d);
  uint32_t n = d.operands() - (combine != kAlone);
  if (n < 3 || n > 4) d.unsupported("so many operands");
  c.p = d.predicateDestination(0);
  if (n == 4) c.q = d.predicateDestination(1);
  c.a = d.source(n - 2, t), c.b = d.source(n - 1, t);
  if (combine != kAlone) d.predicateSource(n, c);
  c.detail = uint8_t(combine << 4);
  c.flags = d.has("ftz") ? kFlushBit : 0;
  return withType(t, comparison(d));
}

/// set.lt.f32.s32 d, a, b: the result as a number of the first type.
Handler set(Decoder &d, Code &c) {
  Type result = d.type(0), t = d.type(1);
  uint8_t combine = combination(d);
  c.dst = d.destination(0);
  c.a = d.source(1, t), c.b = d.source(2, t);
  if (combine != kAlone) d.predicateSource(3, c);
  c.detail = uint8_t(combine << 4);
  bool pair = t == Type::kF16x2 || t == Type::kBf16x2;
  c.flags = uint8_t((d.has("ftz") ? kFlushBit : 0) | kNumber | (pair ? kPair : 0));
  bool half = result == Type::kF16 || result == Type::kF16x2, bfloat = result == Type::kBf16 || result == Type::kBf16x2;
  uint32_t one = result == Type::kF32          ? 0x3f800000
                 : half                        ? 0x3c00
                 : bfloat                      ? 0x3f80
                 : pair || sizeOf(result) == 2 ? 0xffff
                                               : ~0u;
  c.value = one;
  return withType(t, comparison(d));
}

Step selp(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  uint32_t p = c.paNegated ? ~x.predicate(c.pa) : x.predicate(c.pa);
  each(x.active, [&](int l) { d[l] = p >> l & 1 ? a[l] : b[l]; });
  return Step::kNext;
}
template <class T> Step slct(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = get<T>(e[l]) >= T(0) ? a[l] : b[l]; });
  return Step::kNext;
}

} // namespace

void addComparisons(DecodeTable &t) {
  t["setp"] = setp;
  t["set"] = set;
  t["selp"] = [](Decoder &d, Code &c) -> Handler {
    Type k = d.type();
    c.dst = d.destination(0), c.a = d.source(1, k), c.b = d.source(2, k);
    d.predicateSource(3, c);
    return selp;
  };
  t["slct"] = [](Decoder &d, Code &c) -> Handler {
    Type k = d.type(), by = d.type(1);
    c.dst = d.destination(0), c.a = d.source(1, k), c.b = d.source(2, k), c.c = d.source(3, by);
    return by == Type::kF32 ? slct<float> : slct<int32_t>;
  };
}

} // namespace opc::gpusim
