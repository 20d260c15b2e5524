// Floating-point arithmetic in round to nearest: f32, f64, f16, bf16, pairs; Rounded.cpp has the other roundings.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Lanes.h"
#include "Rounded.h"
#include "SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::gpusim {

namespace {

// Bits of Code::flags.
enum : uint8_t { kFlush = 1, kSaturate = 2, kNan = 4, kXorSign = 8, kRelu = 16 };

constexpr uint32_t kQuietF32 = 0x7fffffff; // what hardware gives
constexpr uint64_t kQuietF64 = 0xfff8000000000000;

template <class T> T flushed(T v) {
  if constexpr (std::is_same_v<T, float>)
    return std::fabs(v) < std::numeric_limits<float>::min() ? std::copysign(0.0f, v) : v;
  return v;
}
template <class T> T saturated(T v) { return v > T(0) ? (v < T(1) ? v : T(1)) : T(0); } // NaN becomes 0
template <class T> uint64_t canonical(T v) {
  if (v != v) return std::is_same_v<T, float> ? kQuietF32 : kQuietF64;
  return put<T>(v);
}

struct FAdd {
  template <class T> static T apply(T a, T b, T) { return a + b; }
};
struct FSub {
  template <class T> static T apply(T a, T b, T) { return a - b; }
};
struct FMul {
  template <class T> static T apply(T a, T b, T) { return a * b; }
};
struct FDiv {
  template <class T> static T apply(T a, T b, T) { return a / b; }
};
struct FFma {
  template <class T> static T apply(T a, T b, T c) { return std::fma(a, b, c); }
};
struct FSqrt {
  template <class T> static T apply(T a, T, T) { return std::sqrt(a); }
};
struct FRcp {
  template <class T> static T apply(T a, T, T) { return T(1) / a; }
};
struct FNeg {
  template <class T> static T apply(T a, T, T) { return -a; }
};
struct FAbs {
  template <class T> static T apply(T a, T, T) { return std::fabs(a); }
};
struct FRsqrt {
  template <class T> static T apply(T a, T, T) { return T(1 / std::sqrt(double(a))); }
};
struct FSin {
  template <class T> static T apply(T a, T, T) { return T(std::sin(double(a))); }
};
struct FCos {
  template <class T> static T apply(T a, T, T) { return T(std::cos(double(a))); }
};
struct FLg2 {
  template <class T> static T apply(T a, T, T) { return T(std::log2(double(a))); }
};
struct FEx2 {
  template <class T> static T apply(T a, T, T) { return T(std::exp2(double(a))); }
};
struct FTanh {
  template <class T> static T apply(T a, T, T) { return T(std::tanh(double(a))); }
};
struct FCopysign {
  template <class T> static T apply(T a, T b, T) { return std::copysign(b, a); }
};

/// neg, abs and copysign keep a NaN's bits; all others make hardware's NaN.
template <class Op>
constexpr bool kKeepsNan = std::is_same_v<Op, FNeg> || std::is_same_v<Op, FAbs> || std::is_same_v<Op, FCopysign>;

template <class T, class Op, bool Plain> Step arithmetic(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    T u = get<T>(a[l]), v = get<T>(b[l]), w = get<T>(e[l]);
    if constexpr (Plain) {
      T r = Op::apply(u, v, w);
      d[l] = kKeepsNan<Op> ? put<T>(r) : canonical<T>(r);
    } else {
      if (c.flags & kFlush) u = flushed(u), v = flushed(v), w = flushed(w);
      T r = Op::apply(u, v, w);
      if (c.flags & kFlush) r = flushed(r);
      if (c.flags & kSaturate) r = saturated(r);
      d[l] = kKeepsNan<Op> ? put<T>(r) : canonical<T>(r);
    }
  });
  return Step::kNext;
}

template <class T> T smaller(T a, T b) { return a < b || (a == b && std::signbit(a)) ? a : b; }
template <class T> T larger(T a, T b) { return a > b || (a == b && !std::signbit(a)) ? a : b; }

/// min and max: a number wins over NaN unless .NaN says otherwise; -0 is below +0.
template <class T, bool Max> T extreme(T a, T b, uint8_t flags) {
  if (a != a || b != b) {
    if ((flags & kNan) || (a != a && b != b)) return std::numeric_limits<T>::quiet_NaN();
    return a != a ? b : a;
  }
  if (flags & kXorSign) {
    T m = Max ? larger(std::fabs(a), std::fabs(b)) : smaller(std::fabs(a), std::fabs(b));
    return std::signbit(a) != std::signbit(b) ? -m : m;
  }
  return Max ? larger(a, b) : smaller(a, b);
}

template <class T, bool Max> Step minMax(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = c.c == Code::kNoSlot ? nullptr : x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    T u = get<T>(a[l]), v = get<T>(b[l]);
    if (c.flags & kFlush) u = flushed(u), v = flushed(v);
    T r = extreme<T, Max>(u, v, c.flags);
    if (e) r = extreme<T, Max>(r, c.flags & kFlush ? flushed(get<T>(e[l])) : get<T>(e[l]), c.flags);
    d[l] = canonical<T>(r);
  });
  return Step::kNext;
}

// --- f16 and bf16: computed in float (double for fma) and rounded once more, which is exact for so few bits
// -------------

struct HalfFormat {
  static float from(uint16_t bits) { return halfToFloat(bits); }
  static uint16_t to(float f) { return floatToHalf(f); }
  static uint16_t to(double v) { return uint16_t(toFormat(v, kHalfFormat, Rounding::kNearestEven, false)); }
  static constexpr uint16_t kSmallest = 0x0400;
};
struct BfloatFormat {
  static float from(uint16_t bits) { return bfloatToFloat(bits); }
  static uint16_t to(float f) { return floatToBfloat(f); }
  static uint16_t to(double v) { return uint16_t(toFormat(v, kBfloatFormat, Rounding::kNearestEven, false)); }
  static constexpr uint16_t kSmallest = 0x0080;
};

template <class S> uint16_t flushSmall(uint16_t v, uint8_t flags) {
  return (flags & kFlush) && (v & 0x7fff) < S::kSmallest ? v & 0x8000 : v;
}

template <class S, class Op> uint16_t small(uint16_t a, uint16_t b, uint16_t e, uint8_t flags) {
  a = flushSmall<S>(a, flags), b = flushSmall<S>(b, flags), e = flushSmall<S>(e, flags);
  float u = S::from(a), v = S::from(b), w = S::from(e);
  uint16_t r;
  if constexpr (std::is_same_v<Op, FNeg>)
    return a ^ 0x8000;
  else if constexpr (std::is_same_v<Op, FAbs>)
    return a & 0x7fff;
  else if constexpr (std::is_same_v<Op, FFma>)
    r = S::to(fmaToOdd(u, v, w));
  else if constexpr (std::is_same_v<Op, FAdd> && std::is_same_v<S, BfloatFormat>)
    r = S::to(fmaToOdd(u, 1, v));
  else if constexpr (std::is_same_v<Op, FSub> && std::is_same_v<S, BfloatFormat>)
    r = S::to(fmaToOdd(u, 1, -v));
  else
    r = S::to(Op::apply(u, v, w));
  r = flushSmall<S>(r, flags);
  float f = S::from(r);
  if (flags & kSaturate) r = S::to(saturated(f));
  if ((flags & kRelu) && !(f != f)) r = f > 0 ? r : 0;
  return r;
}
template <class S, bool Max> uint16_t smallExtreme(uint16_t a, uint16_t b, uint8_t flags) {
  return S::to(extreme<float, Max>(S::from(flushSmall<S>(a, flags)), S::from(flushSmall<S>(b, flags)), flags));
}

template <class S, class Op, bool Pair> Step smallArithmetic(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    uint64_t r = small<S, Op>(uint16_t(a[l]), uint16_t(b[l]), uint16_t(e[l]), c.flags);
    if (Pair)
      r |= uint64_t(small<S, Op>(uint16_t(a[l] >> 16), uint16_t(b[l] >> 16), uint16_t(e[l] >> 16), c.flags)) << 16;
    d[l] = r;
  });
  return Step::kNext;
}
template <class S, bool Max, bool Pair> Step smallMinMax(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    uint64_t r = smallExtreme<S, Max>(uint16_t(a[l]), uint16_t(b[l]), c.flags);
    if (Pair) r |= uint64_t(smallExtreme<S, Max>(uint16_t(a[l] >> 16), uint16_t(b[l] >> 16), c.flags)) << 16;
    d[l] = r;
  });
  return Step::kNext;
}

template <class Op> Handler byType(Type t, const Code &c) {
  bool plain = (c.flags & (kFlush | kSaturate)) == 0;
  switch (t) {
  case Type::kF32: return plain ? arithmetic<float, Op, true> : arithmetic<float, Op, false>;
  case Type::kF64: return arithmetic<double, Op, true>;
  case Type::kF16: return smallArithmetic<HalfFormat, Op, false>;
  case Type::kF16x2: return smallArithmetic<HalfFormat, Op, true>;
  case Type::kBf16: return smallArithmetic<BfloatFormat, Op, false>;
  case Type::kBf16x2: return smallArithmetic<BfloatFormat, Op, true>;
  default: throw Unsupported{"no floating-point type"};
  }
}
template <bool Max> Handler extremeByType(Type t) {
  switch (t) {
  case Type::kF32: return minMax<float, Max>;
  case Type::kF64: return minMax<double, Max>;
  case Type::kF16: return smallMinMax<HalfFormat, Max, false>;
  case Type::kF16x2: return smallMinMax<HalfFormat, Max, true>;
  case Type::kBf16: return smallMinMax<BfloatFormat, Max, false>;
  case Type::kBf16x2: return smallMinMax<BfloatFormat, Max, true>;
  default: throw Unsupported{"no floating-point type"};
  }
}

void sources(Decoder &d, Code &c) {
  Type t = d.type();
  uint32_t n = d.operands();
  c.dst = d.destination(0);
  c.a = d.source(1, t);
  c.b = n > 2 ? d.source(2, t) : d.constant(0);
  c.c = n > 3 ? d.source(3, t) : d.constant(0);
  c.flags = uint8_t(d.has("ftz") * kFlush | (d.has("sat") || false) * kSaturate | d.has("NaN") * kNan |
                    d.has("relu") * kRelu | (d.hasPrefix("xorsign")) * kXorSign);
}

bool directed(const Decoder &d, Rounding *r) {
  if (d.has("rz")) return *r = Rounding::kZero, true;
  if (d.has("rm")) return *r = Rounding::kDown, true;
  if (d.has("rp")) return *r = Rounding::kUp, true;
  return false;
}

template <class Op> Handler function(Decoder &d, Code &c) {
  sources(d, c);
  return byType<Op>(d.type(), c);
}

/// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 give the upper half of the bits.
template <class Op> Step upperHalf(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    double v = get<double>(a[l] & ~uint64_t(0xffffffff));
    if (std::fabs(v) < std::numeric_limits<double>::min()) v = std::copysign(0.0, v);
    d[l] = canonical<double>(Op::apply(v, 0.0, 0.0)) & ~uint64_t(0xffffffff);
  });
  return Step::kNext;
}
template <class Op> Handler reciprocal(Decoder &d, Code &c) {
  sources(d, c);
  if (d.type() == Type::kF64 && d.has("approx")) return upperHalf<Op>;
  Rounding r;
  if (directed(d, &r)) {
    c.detail = uint8_t(r);
    return roundedHandler(std::is_same_v<Op, FRcp> ? RoundedOp::kRcp : RoundedOp::kSqrt, d.type() == Type::kF64);
  }
  return byType<Op>(d.type(), c);
}

/// testp. detail: 0 finite, 1 infinite, 2 number, 3 not a number, 4 normal, 5 subnormal.
template <class T> Step testProperty(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint32_t bits = 0;
  each(x.active, [&](int l) {
    T v = get<T>(a[l]);
    bool is[] = {std::isfinite(v), std::isinf(v),    !std::isnan(v),
                 std::isnan(v),    std::isnormal(v), std::fpclassify(v) == FP_SUBNORMAL};
    bits |= uint32_t(is[c.detail]) << l;
  });
  x.setPredicate(c.p, bits);
  return Step::kNext;
}
Handler testp(Decoder &d, Code &c) {
  constexpr std::string_view kNames[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  for (uint8_t i = 0; i < 6; ++i)
    if (d.has(kNames[i])) c.detail = i;
  c.p = d.predicateDestination(0);
  c.a = d.source(1, d.type());
  return d.type() == Type::kF64 ? testProperty<double> : testProperty<float>;
}

} // namespace

Handler decodeFloatArithmetic(Decoder &d, Code &c) {
  sources(d, c);
  std::string_view name = d.name();
  Type t = d.type();
  if (name == "min" || name == "max") {
    if (d.operands() < 4) c.c = Code::kNoSlot;
    return name == "min" ? extremeByType<false>(t) : extremeByType<true>(t);
  }
  if (name == "neg") return byType<FNeg>(t, c);
  if (name == "abs") return byType<FAbs>(t, c);
  Rounding r;
  if (directed(d, &r)) {
    if (t != Type::kF32 && t != Type::kF64) d.unsupported("this rounding of a small type");
    c.detail = uint8_t(r);
    RoundedOp op = name == "add"   ? RoundedOp::kAdd
                   : name == "sub" ? RoundedOp::kSub
                   : name == "mul" ? RoundedOp::kMul
                   : name == "div" ? RoundedOp::kDiv
                                   : RoundedOp::kFma;
    return roundedHandler(op, t == Type::kF64);
  }
  if (name == "add") return byType<FAdd>(t, c);
  if (name == "sub") return byType<FSub>(t, c);
  if (name == "mul") return byType<FMul>(t, c);
  if (name == "div") return byType<FDiv>(t, c);
  return byType<FFma>(t, c); // fma, mad
}

void addFloats(DecodeTable &t) {
  t["fma"] = decodeFloatArithmetic;
  t["sqrt"] = reciprocal<FSqrt>;
  t["rcp"] = reciprocal<FRcp>;
  t["rsqrt"] = [](Decoder &d, Code &c) -> Handler {
    sources(d, c);
    return d.type() == Type::kF64 && d.has("ftz") ? upperHalf<FRsqrt> : byType<FRsqrt>(d.type(), c);
  };
  t["sin"] = function<FSin>;
  t["cos"] = function<FCos>;
  t["lg2"] = function<FLg2>;
  t["ex2"] = function<FEx2>;
  t["tanh"] = function<FTanh>;
  t["copysign"] = function<FCopysign>;
  t["testp"] = testp;
}

} // namespace opc::gpusim
