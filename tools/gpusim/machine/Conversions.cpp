// cvt: between all types, with all roundings.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"
#include "Lanes.h"
#include "SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::gpusim {

namespace {

enum : uint8_t { kFlush = 1, kSaturate = 2, kIntegral = 4, kRelu = 8, kFinite = 16 };

struct Half {};
struct Bfloat {};
struct Tfloat {};
template <class T> constexpr bool kInteger = std::is_integral_v<T>;

/// Any floating-point source as double: exact.
template <class T> double loadFloat(uint64_t bits, const Code &c) {
  if constexpr (std::is_same_v<T, Half>)
    return halfToFloat(uint16_t(bits));
  else if constexpr (std::is_same_v<T, Bfloat>)
    return bfloatToFloat(uint16_t(bits));
  else if constexpr (std::is_same_v<T, Tfloat>)
    return get<float>(bits);
  else if constexpr (std::is_same_v<T, float>) {
    float f = get<float>(bits);
    return (c.flags & kFlush) && std::fabs(f) < 0x1p-126f ? std::copysign(0.0f, f) : f;
  } else
    return get<double>(bits);
}

double toIntegral(double v, Rounding r) {
  switch (r) {
  case Rounding::kNearestEven: return std::nearbyint(v);
  case Rounding::kZero: return std::trunc(v);
  case Rounding::kDown: return std::floor(v);
  case Rounding::kUp: return std::ceil(v);
  case Rounding::kNearestAway: return std::round(v);
  }
  return v;
}

constexpr Format kFloatFormat{8, 23, false};

uint64_t floatBits(double v, Rounding r, uint8_t flags) {
  if (v != v) return 0x7fffffff;
  float f = r == Rounding::kNearestEven ? float(v) : std::bit_cast<float>(toFormat(v, kFloatFormat, r, false));
  if ((flags & kFlush) && std::fabs(f) < 0x1p-126f) f = std::copysign(0.0f, f);
  return put<float>(f);
}

template <class D> uint64_t storeFloat(double v, const Code &c) {
  Rounding r = Rounding(c.detail);
  if (c.flags & kIntegral) v = toIntegral(v, r);
  if (c.flags & kSaturate) v = v > 0 ? std::min(v, 1.0) : 0.0;
  if ((c.flags & kRelu) && !(v != v)) v = v > 0 ? v : 0;
  bool finite = c.flags & kFinite;
  if constexpr (std::is_same_v<D, Half>)
    return v != v ? 0x7fff : toFormat(v, kHalfFormat, r, finite);
  else if constexpr (std::is_same_v<D, Bfloat>)
    return v != v ? 0x7fff : toFormat(v, kBfloatFormat, r, finite);
  else if constexpr (std::is_same_v<D, Tfloat>)
    return v != v ? 0x7fffffff : uint64_t(toFormat(v, kTfloatFormat, r, finite)) << 13;
  else if constexpr (std::is_same_v<D, float>)
    return floatBits(v, r, c.flags);
  else
    return v != v ? 0xfff8000000000000 : put<double>(v);
}

/// NaN becomes 0 (for 64 bits and 32 bits of hardware's cvt), what is too large the nearest bound.
template <class D> uint64_t storeInteger(double v, const Code &c) {
  v = toIntegral(v, Rounding(c.detail));
  if (v != v) return sizeof(D) == 8 ? uint64_t(1) << 63 : 0;
  constexpr double kLow = double(std::numeric_limits<D>::min());
  const double high = std::ldexp(1.0, std::numeric_limits<D>::digits);
  if (v < kLow) return put<D>(std::numeric_limits<D>::min());
  if (v >= high) return put<D>(std::numeric_limits<D>::max());
  return put<D>(D(v));
}

/// 64-bit integers do not fit a double: to the nearest float in one rounding.
template <class D, class S> uint64_t integerToFloat(S v, const Code &c) {
  Rounding r = Rounding(c.detail);
  if constexpr (sizeof(S) < 8) {
    return storeFloat<D>(double(v), c);
  } else {
    if (r == Rounding::kNearestEven && !(c.flags & kSaturate)) {
      if constexpr (std::is_same_v<D, double>) return put<double>(double(v));
      if constexpr (std::is_same_v<D, float>) return put<float>(float(v));
    }
    // Round to odd into a double, or exactly for a double's own modes.
    double d = double(v);
    __int128 rest = __int128(v) - __int128(d);
    if constexpr (std::is_same_v<D, double>) {
      bool down = r == Rounding::kDown || (r == Rounding::kZero && v > 0),
           up = r == Rounding::kUp || (r == Rounding::kZero && v < 0);
      if (rest < 0 && down) d = std::nextafter(d, -INFINITY);
      if (rest > 0 && up) d = std::nextafter(d, INFINITY);
      return put<double>(d);
    } else {
      if (rest != 0 && !(std::bit_cast<uint64_t>(d) & 1)) d = std::nextafter(d, rest > 0 ? INFINITY : -INFINITY);
      return storeFloat<D>(d, c);
    }
  }
}

template <class D, class S> uint64_t integerToInteger(S v, const Code &c) {
  if (c.flags & kSaturate) {
    __int128 w = v;
    return put<D>(D(std::clamp<__int128>(w, std::numeric_limits<D>::min(), std::numeric_limits<D>::max())));
  }
  return put<D>(D(v));
}

template <class D, class S> Step convert(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    if constexpr (kInteger<D> && kInteger<S>) {
      // Registers wider than the type have the sign's bits.
      uint64_t r = integerToInteger<D, S>(get<S>(a[l]), c);
      d[l] = std::is_signed_v<D> ? uint64_t(int64_t(D(r))) : r;
    } else if constexpr (kInteger<S>) {
      d[l] = integerToFloat<D, S>(get<S>(a[l]), c);
    } else if constexpr (kInteger<D>) {
      uint64_t r = storeInteger<D>(loadFloat<S>(a[l], c), c);
      d[l] = std::is_signed_v<D> ? uint64_t(int64_t(D(r))) : r;
    } else {
      d[l] = storeFloat<D>(loadFloat<S>(a[l], c), c);
    }
  });
  return Step::kNext;
}

template <class D> Handler fromType(Type s) {
  switch (s) {
  case Type::kU8:
  case Type::kB8: return convert<D, uint8_t>;
  case Type::kS8: return convert<D, int8_t>;
  case Type::kU16:
  case Type::kB16: return convert<D, uint16_t>;
  case Type::kS16: return convert<D, int16_t>;
  case Type::kU32:
  case Type::kB32: return convert<D, uint32_t>;
  case Type::kS32: return convert<D, int32_t>;
  case Type::kU64:
  case Type::kB64: return convert<D, uint64_t>;
  case Type::kS64: return convert<D, int64_t>;
  case Type::kF16: return convert<D, Half>;
  case Type::kBf16: return convert<D, Bfloat>;
  case Type::kF32: return convert<D, float>;
  case Type::kF64: return convert<D, double>;
  default: throw Unsupported{"a type that is not converted"};
  }
}
Handler byTypes(Type d, Type s) {
  switch (d) {
  case Type::kU8: return fromType<uint8_t>(s);
  case Type::kS8: return fromType<int8_t>(s);
  case Type::kU16: return fromType<uint16_t>(s);
  case Type::kS16: return fromType<int16_t>(s);
  case Type::kU32: return fromType<uint32_t>(s);
  case Type::kS32: return fromType<int32_t>(s);
  case Type::kU64: return fromType<uint64_t>(s);
  case Type::kS64: return fromType<int64_t>(s);
  case Type::kF16: return fromType<Half>(s);
  case Type::kBf16: return fromType<Bfloat>(s);
  case Type::kTf32: return fromType<Tfloat>(s);
  case Type::kF32: return fromType<float>(s);
  case Type::kF64: return fromType<double>(s);
  default: throw Unsupported{"a type that is not converted"};
  }
}

/// Two floats into a pair: a is the upper half. c.size: bits of an element.
template <class D> Step packPair(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  each(x.active, [&](int l) {
    d[l] = storeFloat<D>(loadFloat<float>(a[l], c), c) << 16 | storeFloat<D>(loadFloat<float>(b[l], c), c);
  });
  return Step::kNext;
}
/// To and from pairs of 8-bit floats. flags 32: e5m2, 64: from f16x2.
Step packBytes(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b);
  uint64_t *d = x.destination(c.dst);
  const Format &f = c.flags & 32 ? kE5m2 : kE4m3;
  auto one = [&](double v) {
    if ((c.flags & kRelu) && !(v != v)) v = v > 0 ? v : 0;
    return v != v ? 0x7fu : toFormat(v, f, Rounding::kNearestEven, true);
  };
  each(x.active, [&](int l) {
    if (c.flags & 64)
      d[l] = one(halfToFloat(uint16_t(a[l] >> 16))) << 8 | one(halfToFloat(uint16_t(a[l])));
    else
      d[l] = one(get<float>(a[l])) << 8 | one(get<float>(b[l]));
  });
  return Step::kNext;
}
Step unpackBytes(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a);
  uint64_t *d = x.destination(c.dst);
  const Format &f = c.flags & 32 ? kE5m2 : kE4m3;
  each(x.active, [&](int l) {
    auto one = [&](uint32_t byte) {
      return uint64_t(toFormat(fromFormat(byte, f), kHalfFormat, Rounding::kNearestEven, false));
    };
    d[l] = one(uint8_t(a[l] >> 8)) << 16 | one(uint8_t(a[l]));
  });
  return Step::kNext;
}

/// cvt.pack.sat.s8.s32.b32 d, a, b, c: the bytes of two numbers above the lower half of c.
Step packIntegers(Lanes &x, const Code &c) {
  const uint64_t *a = x.source(c.a), *b = x.source(c.b), *e = x.source(c.c);
  uint64_t *d = x.destination(c.dst);
  int bits = c.size;
  int64_t low = c.flags & 1 ? -(int64_t(1) << (bits - 1)) : 0,
          high = c.flags & 1 ? (int64_t(1) << (bits - 1)) - 1 : (int64_t(1) << bits) - 1;
  uint64_t mask = (uint64_t(1) << bits) - 1;
  each(x.active, [&](int l) {
    uint64_t u = uint64_t(std::clamp<int64_t>(get<int32_t>(a[l]), low, high)) & mask;
    uint64_t v = uint64_t(std::clamp<int64_t>(get<int32_t>(b[l]), low, high)) & mask;
    d[l] = uint32_t((bits == 16 ? 0 : e[l] << (2 * bits)) | u << bits | v);
  });
  return Step::kNext;
}

void rounding(Decoder &d, Code &c, bool toInteger) {
  Rounding r = toInteger ? Rounding::kZero : Rounding::kNearestEven;
  if (d.has("rn") || d.has("rni")) r = Rounding::kNearestEven;
  if (d.has("rz") || d.has("rzi")) r = Rounding::kZero;
  if (d.has("rm") || d.has("rmi")) r = Rounding::kDown;
  if (d.has("rp") || d.has("rpi")) r = Rounding::kUp;
  if (d.has("rna")) r = Rounding::kNearestAway;
  if (d.has("rs")) d.unsupported("stochastic rounding");
  c.detail = uint8_t(r);
  bool integral = d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
  c.flags = uint8_t(d.has("ftz") * kFlush | d.has("sat") * kSaturate | integral * kIntegral | d.has("relu") * kRelu |
                    d.has("satfinite") * kFinite);
}

Handler cvtPack(Decoder &d, Code &c) {
  Type to = d.type(0);
  c.dst = d.destination(0), c.a = d.source(1, Type::kS32), c.b = d.source(2, Type::kS32);
  c.c = d.operands() > 3 ? d.source(3, Type::kB32) : d.constant(0);
  c.size = uint8_t(sizeOf(to) * 8), c.flags = to == Type::kS8 || to == Type::kS16;
  if (c.size != 8 && c.size != 16) d.unsupported("packing into less than bytes");
  return packIntegers;
}

Handler cvt(Decoder &d, Code &c) {
  if (d.has("pack")) return cvtPack(d, c);
  Type to = d.type(0), from = d.type(1);
  bool integer = !isFloat(to) && to != Type::kTf32 && to != Type::kE4m3x2 && to != Type::kE5m2x2;
  rounding(d, c, integer);
  c.dst = d.destination(0);
  c.a = d.source(1, from);
  if (to == Type::kF16x2 || to == Type::kBf16x2) {
    if (from == Type::kE4m3x2 || from == Type::kE5m2x2) {
      c.flags = uint8_t((c.flags & ~96) | (from == Type::kE5m2x2 ? 32 : 0));
      return unpackBytes;
    }
    if (from != Type::kF32) d.unsupported("a pair of another type");
    c.b = d.source(2, from);
    return to == Type::kF16x2 ? packPair<Half> : packPair<Bfloat>;
  }
  if (to == Type::kE4m3x2 || to == Type::kE5m2x2) {
    if (from != Type::kF32 && from != Type::kF16x2) d.unsupported("a pair of another type");
    c.b = from == Type::kF32 ? d.source(2, from) : d.constant(0);
    c.flags = uint8_t((c.flags & ~96) | (to == Type::kE5m2x2 ? 32 : 0) | (from == Type::kF16x2 ? 64 : 0));
    return packBytes;
  }
  return byTypes(to, from);
}

} // namespace

void addConversions(DecodeTable &t) { t["cvt"] = cvt; }

} // namespace opc::gpusim
