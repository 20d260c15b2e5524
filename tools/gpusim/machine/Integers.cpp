// Integer arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Lanes.h"

#include <algorithm>
#include <limits>

namespace opc::gpusim {

namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> struct Wider;
template <> struct Wider<uint16_t> {
  using type = uint32_t;
};
template <> struct Wider<int16_t> {
  using type = int32_t;
};
template <> struct Wider<uint32_t> {
  using type = uint64_t;
};
template <> struct Wider<int32_t> {
  using type = int64_t;
};
template <> struct Wider<uint64_t> {
  using type = unsigned __int128;
};
template <> struct Wider<int64_t> {
  using type = __int128;
};
template <class T> using Wide = typename Wider<T>::type;

template <class T> T low(Wide<T> v) { return T(Unsigned<T>(v)); }

template <class T> struct Add {
  static T apply(T a, T b) { return T(Unsigned<T>(a) + Unsigned<T>(b)); }
};
template <class T> struct Sub {
  static T apply(T a, T b) { return T(Unsigned<T>(a) - Unsigned<T>(b)); }
};
template <class T> struct MulLo {
  static T apply(T a, T b) { return low<T>(Wide<T>(a) * Wide<T>(b)); }
};
template <class T> struct MulHi {
  static T apply(T a, T b) { return T((Wide<T>(a) * Wide<T>(b)) >> (sizeof(T) * 8)); }
};
template <class T> struct Div {
  static T apply(T a, T b) {
    if (b == 0) return T(~Unsigned<T>(0)); // as hardware does
    if (std::is_signed_v<T> && b == T(-1)) return T(Unsigned<T>(0) - Unsigned<T>(a));
    return T(a / b);
  }
};
template <class T> struct Rem {
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};
template <class T> struct Min {
  static T apply(T a, T b) { return std::min(a, b); }
};
template <class T> struct Max {
  static T apply(T a, T b) { return std::max(a, b); }
};
template <class T> struct AddSat {
  static T apply(T a, T b) {
    return T(std::clamp<Wide<T>>(Wide<T>(a) + b, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
};
template <class T> struct SubSat {
  static T apply(T a, T b) {
    return T(std::clamp<Wide<T>>(Wide<T>(a) - b, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  }
};
template <class T> struct Neg {
  static T apply(T a) { return T(Unsigned<T>(0) - Unsigned<T>(a)); }
};
template <class T> struct Abs {
  static T apply(T a) { return a < 0 ? Neg<T>::apply(a) : a; }
};

template <class T, class Op> Step binary(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = put<T>(Op::apply(get<T>(a[l]), get<T>(b[l]))); });
  return Step::kNext;
}
template <class T, class Op> Step unary(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = put<T>(Op::apply(get<T>(a[l]))); });
  return Step::kNext;
}
template <class T> Step mulWide(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = uint64_t(Unsigned<Wide<T>>(Wide<T>(get<T>(a[l])) * Wide<T>(get<T>(b[l])))); });
  return Step::kNext;
}
template <class T> Step madWide(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    d[l] =
        Unsigned<Wide<T>>(Unsigned<Wide<T>>(Wide<T>(get<T>(a[l])) * Wide<T>(get<T>(b[l]))) + Unsigned<Wide<T>>(e[l]));
  });
  return Step::kNext;
}
template <class T, class Op> Step mad(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) { d[l] = put<T>(Add<T>::apply(Op::apply(get<T>(a[l]), get<T>(b[l])), get<T>(e[l]))); });
  return Step::kNext;
}
template <class T> Step sad(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    T u = get<T>(a[l]), v = get<T>(b[l]);
    d[l] = put<T>(Add<T>::apply(u < v ? Sub<T>::apply(v, u) : Sub<T>::apply(u, v), get<T>(e[l])));
  });
  return Step::kNext;
}

/// add.cc, addc, sub.cc, subc: the carry is a bit a lane. flags: 1 carry in, 2 carry out, 4 subtraction.
template <class T> Step carry(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  uint32_t &cc = x.frame->carry;
  each(x.active, [&](int l) {
    T u = get<T>(a[l]), v = get<T>(b[l]);
    bool in = (c.flags & 1) && (cc >> l & 1), out;
    T r;
    if (c.flags & 4) { // the flag is the borrow
      r = T(u - v - in);
      out = in ? u <= v : u < v;
    } else {
      r = T(u + v + in);
      out = in ? r <= u : r < u;
    }
    d[l] = r;
    if (c.flags & 2) cc = (cc & ~(1u << l)) | uint32_t(out) << l;
  });
  return Step::kNext;
}
/// mad.lo.cc, madc.hi, ...: flags as above, 8: the high half.
template <class T> Step madCarry(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  uint32_t &cc = x.frame->carry;
  each(x.active, [&](int l) {
    T p = c.flags & 8 ? MulHi<T>::apply(get<T>(a[l]), get<T>(b[l])) : MulLo<T>::apply(get<T>(a[l]), get<T>(b[l]));
    bool in = (c.flags & 1) && (cc >> l & 1);
    Unsigned<T> r = Unsigned<T>(p) + get<Unsigned<T>>(e[l]) + in;
    bool out = in ? r <= Unsigned<T>(p) : r < Unsigned<T>(p);
    d[l] = r;
    if (c.flags & 2) cc = (cc & ~(1u << l)) | uint32_t(out) << l;
  });
  return Step::kNext;
}

template <template <class> class Op> Handler integerBinary(Type t) {
  switch (t) {
  case Type::kU16:
  case Type::kB16: return binary<uint16_t, Op<uint16_t>>;
  case Type::kS16: return binary<int16_t, Op<int16_t>>;
  case Type::kU32:
  case Type::kB32: return binary<uint32_t, Op<uint32_t>>;
  case Type::kS32: return binary<int32_t, Op<int32_t>>;
  case Type::kU64:
  case Type::kB64: return binary<uint64_t, Op<uint64_t>>;
  case Type::kS64: return binary<int64_t, Op<int64_t>>;
  default: throw Unsupported{"no integer type"};
  }
}
/// T and all that fits it of F: F is a template over the type.
#define OPC_INTEGER_TYPES(HANDLER)                                                                                     \
  switch (t) {                                                                                                         \
  case Type::kU16: return HANDLER(uint16_t);                                                                           \
  case Type::kS16: return HANDLER(int16_t);                                                                            \
  case Type::kU32: return HANDLER(uint32_t);                                                                           \
  case Type::kS32: return HANDLER(int32_t);                                                                            \
  case Type::kU64: return HANDLER(uint64_t);                                                                           \
  case Type::kS64: return HANDLER(int64_t);                                                                            \
  default: throw Unsupported{"no integer type"};                                                                       \
  }

template <class T, class Op> Step packed(Lanes &x, const Code &c) { // two 16-bit halves
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    d[l] = put<T>(Op::apply(T(a[l]), T(b[l]))) | put<T>(Op::apply(T(a[l] >> 16), T(b[l] >> 16))) << 16;
  });
  return Step::kNext;
}
template <template <class> class Op> Handler packed(Type t) {
  return t == Type::kU16x2 ? packed<uint16_t, Op<uint16_t>> : packed<int16_t, Op<int16_t>>;
}

void sources(Decoder &d, Code &c, uint32_t count, Type t) {
  c.dst = d.destination(0);
  c.a = d.source(1, t);
  if (count > 1) c.b = d.source(2, t);
  if (count > 2) c.c = d.source(3, t);
}

template <template <class> class Op, template <class> class Saturated> Handler addOrSub(Decoder &d, Code &c) {
  Type t = d.type();
  if (isFloat(t)) return decodeFloatArithmetic(d, c);
  bool in = d.name() == "addc" || d.name() == "subc", out = d.has("cc");
  sources(d, c, 2, t);
  if (in || out) {
    c.flags = uint8_t(in | out << 1 | (d.name()[0] == 's') << 2);
    return sizeOf(t) == 8 ? carry<uint64_t> : carry<uint32_t>;
  }
  if (t == Type::kU16x2 || t == Type::kS16x2) return packed<Op>(t);
  if (d.has("sat")) return binary<int32_t, Saturated<int32_t>>;
  return integerBinary<Op>(t);
}

template <template <class> class Op> Handler plain(Decoder &d, Code &c) {
  Type t = d.type();
  if (isFloat(t)) return decodeFloatArithmetic(d, c);
  if (d.has("relu")) d.unsupported("relu of integers");
  sources(d, c, 2, t);
  if (t == Type::kU16x2 || t == Type::kS16x2) return packed<Op>(t);
  return integerBinary<Op>(t);
}

/// Of the type whose product has twice its bits.
template <class F> Handler ofWideProduct(Decoder &d, F handlerOf) {
  switch (d.type()) {
  case Type::kU16: return handlerOf(uint16_t{});
  case Type::kS16: return handlerOf(int16_t{});
  case Type::kU32: return handlerOf(uint32_t{});
  case Type::kS32: return handlerOf(int32_t{});
  default: d.unsupported("no type of a wide product");
  }
}

Handler mul(Decoder &d, Code &c) {
  Type t = d.type();
  if (isFloat(t)) return decodeFloatArithmetic(d, c);
  sources(d, c, 2, t);
  if (d.has("wide")) return ofWideProduct(d, [](auto n) -> Handler { return mulWide<decltype(n)>; });
  return d.has("hi") ? integerBinary<MulHi>(t) : integerBinary<MulLo>(t);
}

Handler multiplyAdd(Decoder &d, Code &c) {
  Type t = d.type();
  if (isFloat(t)) return decodeFloatArithmetic(d, c);
  sources(d, c, 3, t);
  bool hi = d.has("hi");
  if (d.name() == "madc" || d.has("cc")) {
    c.flags = uint8_t((d.name() == "madc") | d.has("cc") << 1 | hi << 3);
    switch (t) {
    case Type::kU32: return madCarry<uint32_t>;
    case Type::kS32: return madCarry<int32_t>;
    case Type::kU64: return madCarry<uint64_t>;
    case Type::kS64: return madCarry<int64_t>;
    default: d.unsupported("no type of an extended product");
    }
  }
  if (d.has("sat")) d.unsupported("saturation");
  if (d.has("wide")) return ofWideProduct(d, [](auto n) -> Handler { return madWide<decltype(n)>; });
#define OPC_MAD_HI(T) (mad<T, MulHi<T>>)
#define OPC_MAD_LO(T) (mad<T, MulLo<T>>)
  if (hi) OPC_INTEGER_TYPES(OPC_MAD_HI)
  OPC_INTEGER_TYPES(OPC_MAD_LO)
}

Step mul24(Lanes &x, const Code &c) { // flags: 1 signed, 2 high, 4 with an addend
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = c.flags & 4 ? x.source(c.c) : nullptr;
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    auto cut = [&](uint64_t v) {
      return c.flags & 1 ? int64_t(int32_t(uint32_t(v) << 8) >> 8) : int64_t(v & 0xffffff);
    };
    int64_t product = cut(a[l]) * cut(b[l]);
    d[l] = uint32_t((c.flags & 2 ? product >> 16 : product) + (e ? int64_t(uint32_t(e[l])) : 0));
  });
  return Step::kNext;
}

/// flags: 1 a signed, 2 b signed, 4 dp2a, 8 dp2a.hi.
Step dotProduct(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    auto byte = [](uint64_t v, int i, bool s) {
      return s ? int32_t(int8_t(v >> (8 * i))) : int32_t(uint8_t(v >> (8 * i)));
    };
    auto half = [](uint64_t v, int i, bool s) {
      return s ? int32_t(int16_t(v >> (16 * i))) : int32_t(uint16_t(v >> (16 * i)));
    };
    uint32_t sum = uint32_t(e[l]);
    if (c.flags & 4)
      for (int i = 0; i < 2; ++i)
        sum += uint32_t(half(a[l], i, c.flags & 1)) * uint32_t(byte(b[l], i + (c.flags & 8 ? 2 : 0), c.flags & 2));
    else
      for (int i = 0; i < 4; ++i) sum += uint32_t(byte(a[l], i, c.flags & 1) * byte(b[l], i, c.flags & 2));
    d[l] = sum;
  });
  return Step::kNext;
}

Handler unaryInteger(Decoder &d, Code &c, bool negate) {
  Type t = d.type();
  if (isFloat(t)) return decodeFloatArithmetic(d, c);
  sources(d, c, 1, t);
  switch (t) {
  case Type::kS16: return negate ? unary<int16_t, Neg<int16_t>> : unary<int16_t, Abs<int16_t>>;
  case Type::kS32: return negate ? unary<int32_t, Neg<int32_t>> : unary<int32_t, Abs<int32_t>>;
  case Type::kS64: return negate ? unary<int64_t, Neg<int64_t>> : unary<int64_t, Abs<int64_t>>;
  default: d.unsupported("no type of neg or abs");
  }
}

Handler sumOfDifferences(Decoder &d, Code &c) {
  Type t = d.type();
  sources(d, c, 3, t);
#define OPC_SAD(T) (sad<T>)
  OPC_INTEGER_TYPES(OPC_SAD)
}

Handler dots(Decoder &d, Code &c) {
  sources(d, c, 3, Type::kB32);
  c.flags = uint8_t((d.type(0) == Type::kS32) | (d.type(1) == Type::kS32) << 1 | (d.name() == "dp2a") << 2 |
                    d.has("hi") << 3);
  return dotProduct;
}

} // namespace

void addIntegers(DecodeTable &t) {
  t["add"] = t["addc"] = addOrSub<Add, AddSat>;
  t["sub"] = t["subc"] = addOrSub<Sub, SubSat>;
  t["mul"] = mul;
  t["mad"] = t["madc"] = multiplyAdd;
  t["div"] = plain<Div>;
  t["rem"] = plain<Rem>;
  t["min"] = plain<Min>;
  t["max"] = plain<Max>;
  t["neg"] = [](Decoder &d, Code &c) { return unaryInteger(d, c, true); };
  t["abs"] = [](Decoder &d, Code &c) { return unaryInteger(d, c, false); };
  t["sad"] = sumOfDifferences;
  t["dp4a"] = t["dp2a"] = dots;
  t["mul24"] = t["mad24"] = [](Decoder &d, Code &c) -> Handler {
    bool addend = d.name() == "mad24";
    sources(d, c, addend ? 3 : 2, d.type());
    c.flags = uint8_t((d.type() == Type::kS32) | d.has("hi") << 1 | addend << 2);
    return mul24;
  };
}

} // namespace opc::gpusim
