// Instructions against formulas: integers in 128 bits, floats in more digits, bit by bit.
// SPDX-License-Identifier: Apache-2.0
#include "SimulatorFixture.h"

#include <cfenv>
#include <cmath>
#include <functional>
#include <random>

using namespace opc::gpusim;
using namespace opc::gpusim::test;

namespace {

struct Input {
  uint64_t a, b, c;
};

/// A snippet reads %a %b %c (64 bits), %ra %rb %rc (32), %ha %hb %hc (16), and leaves its result in %d.
std::vector<uint64_t> evaluate(const std::string &snippet, const std::vector<Input> &inputs) {
  std::string text = kHead + R"(.entry k(.param .u64 in, .param .u64 out) {
  .reg .b64 %a, %b, %c, %d, %e, %in, %out, %t<4>; .reg .b32 %ra, %rb, %rc, %rd, %re, %i; .reg .b16 %ha, %hb, %hc, %hd; .reg .pred %p, %q, %s;
  mov.u32 %i, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
  mad.wide.u32 %in, %i, 24, %in; mad.wide.u32 %out, %i, 8, %out;
  ld.global.b64 %a, [%in]; ld.global.b64 %b, [%in+8]; ld.global.b64 %c, [%in+16];
  cvt.u32.u64 %ra, %a; cvt.u32.u64 %rb, %b; cvt.u32.u64 %rc, %c; cvt.u16.u64 %ha, %a; cvt.u16.u64 %hb, %b; cvt.u16.u64 %hc, %c;
  setp.ne.b64 %q, %c, 0;
  )" + snippet + "\n  st.global.b64 [%out], %d;\n  ret;\n}\n";
  Device d(text);
  std::vector<uint64_t> results;
  for (size_t from = 0; from < inputs.size(); from += 1024) {
    size_t n = std::min<size_t>(1024, inputs.size() - from);
    std::vector<Input> part(inputs.begin() + long(from), inputs.begin() + long(from + n));
    uint64_t in = d.buffer(part), out = d.buffer(std::vector<uint64_t>(n));
    d.params.clear();
    d.arg(in).arg(out);
    Outcome o = d.run({}, {uint32_t(n)});
    INFO(snippet << "\n" << texts(o));
    REQUIRE(o.findings.empty());
    auto r = d.read<uint64_t>(out, n);
    results.insert(results.end(), r.begin(), r.end());
    d.memory.release(in), d.memory.release(out);
  }
  return results;
}

std::vector<Input> integers() {
  const uint64_t edges[] = {0,
                            1,
                            2,
                            31,
                            32,
                            33,
                            63,
                            64,
                            0x7fff,
                            0x8000,
                            0xffff,
                            0x7fffffff,
                            0x80000000,
                            0xffffffff,
                            0x7fffffffffffffff,
                            0x8000000000000000,
                            ~uint64_t(0)};
  std::vector<Input> all;
  std::mt19937_64 random(3);
  for (uint64_t a : edges)
    for (uint64_t b : edges) all.push_back({a, b, random()});
  for (int i = 0; i < 300; ++i) all.push_back({random(), random() >> (random() % 64), random()});
  return all;
}

void expect(const std::string &snippet, const std::vector<Input> &inputs,
            const std::function<uint64_t(Input)> &formula) {
  auto got = evaluate(snippet, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    uint64_t want = formula(inputs[i]);
    if (got[i] == want) continue;
    INFO(snippet << " of " << std::hex << inputs[i].a << ", " << inputs[i].b << ", " << inputs[i].c << ": " << got[i]
                 << ", expected " << want);
    CHECK(got[i] == want);
    return;
  }
}

using i128 = __int128;
using u128 = unsigned __int128;
int32_t s32(uint64_t v) { return int32_t(uint32_t(v)); }
uint32_t u32(uint64_t v) { return uint32_t(v); }
std::string r32(const std::string &op) { return op + " cvt.u64.u32 %d, %rd;"; }

float f32(uint64_t v) { return __builtin_bit_cast(float, uint32_t(v)); }
uint64_t bits(float f) { return f != f ? 0x7fffffff : __builtin_bit_cast(uint32_t, f); }
double f64(uint64_t v) { return __builtin_bit_cast(double, v); }
uint64_t bits(double f) { return f != f ? 0xfff8000000000000 : __builtin_bit_cast(uint64_t, f); }

std::vector<Input> floats() {
  const float edges[] = {0.0f,    -0.0f,          1.0f,          -1.0f,          1.5f,     3.0f,      1e-40f,
                         -1e-45f, 1.1754944e-38f, 3.4028235e38f, -3.4028235e38f, INFINITY, -INFINITY, NAN,
                         0.1f,    16777217.0f,    2.5f,          -2.5f,          65504.0f, 65520.0f,  6e-8f};
  std::vector<Input> all;
  std::mt19937_64 random(5);
  for (float a : edges)
    for (float b : edges)
      all.push_back({__builtin_bit_cast(uint32_t, a), __builtin_bit_cast(uint32_t, b), random() & 0xffffffff});
  for (int i = 0; i < 600; ++i) all.push_back({random() & 0xffffffff, random() & 0xffffffff, random() & 0xffffffff});
  return all;
}

/// The float that is next in a direction to an exact value: from the nearest, one step back where it is on the wrong
/// side.
float directed(long double exact, float nearest, int mode) {
  if (exact != exact || std::isinf(exact)) return float(exact);
  float f = nearest;
  bool down = mode == FE_DOWNWARD || (mode == FE_TOWARDZERO && exact > 0),
       up = mode == FE_UPWARD || (mode == FE_TOWARDZERO && exact < 0);
  if (down && (long double)f > exact) f = std::nextafter(f, -INFINITY);
  if (up && (long double)f < exact) f = std::nextafter(f, INFINITY);
  if (exact != 0 && f == 0) f = std::copysign(f, float(exact > 0 ? 1 : -1));
  return f;
}

} // namespace

TEST_CASE("integer arithmetic", "[gpusim]") {
  auto in = integers();
  expect(r32("add.s32 %rd, %ra, %rb;"), in, [](Input i) { return u32(i.a + i.b); });
  expect(r32("add.sat.s32 %rd, %ra, %rb;"), in, [](Input i) {
    return u32(uint64_t(std::clamp<int64_t>(int64_t(s32(i.a)) + s32(i.b), INT32_MIN, INT32_MAX)));
  });
  expect(r32("mul.hi.u32 %rd, %ra, %rb;"), in, [](Input i) { return uint64_t(u32(i.a)) * u32(i.b) >> 32; });
  expect(r32("mul.hi.s32 %rd, %ra, %rb;"), in,
         [](Input i) { return u32(uint64_t(int64_t(s32(i.a)) * s32(i.b) >> 32)); });
  expect("mul.wide.s32 %d, %ra, %rb;", in, [](Input i) { return uint64_t(int64_t(s32(i.a)) * s32(i.b)); });
  expect("mad.wide.u32 %d, %ra, %rb, %c;", in, [](Input i) { return uint64_t(u32(i.a)) * u32(i.b) + i.c; });
  expect(r32("mad.lo.s32 %rd, %ra, %rb, %rc;"), in, [](Input i) { return u32(i.a * i.b + i.c); });
  expect("mul.hi.s64 %d, %a, %b;", in, [](Input i) { return uint64_t(i128(int64_t(i.a)) * int64_t(i.b) >> 64); });
  expect("mul.hi.u64 %d, %a, %b;", in, [](Input i) { return uint64_t(u128(i.a) * i.b >> 64); });
  expect(r32("@%q div.s32 %rd, %ra, %rc; @!%q mov.b32 %rd, 0;"), in,
         [](Input i) { return s32(i.c) == 0 ? (i.c ? 0xffffffff : 0) : u32(uint64_t(int64_t(s32(i.a)) / s32(i.c))); });
  expect("rem.u64 %d, %a, %c;", in, [](Input i) { return i.c ? i.a % i.c : i.a; });
  expect(r32("min.s32 %rd, %ra, %rb;"), in, [](Input i) { return u32(uint64_t(std::min(s32(i.a), s32(i.b)))); });
  expect("max.u64 %d, %a, %b;", in, [](Input i) { return std::max(i.a, i.b); });
  expect(r32("abs.s32 %rd, %ra;"), in, [](Input i) { return u32(uint64_t(std::llabs(int64_t(s32(i.a))))); });
  expect("add.cc.u32 %rd, %ra, %rb; addc.u32 %re, %rc, 0; mov.b64 %d, {%rd, %re};", in, [](Input i) {
    uint64_t sum = uint64_t(u32(i.a)) + u32(i.b);
    return u32(sum) | uint64_t(u32(i.c + (sum >> 32))) << 32;
  });
  expect("sub.cc.u32 %rd, %ra, %rb; subc.u32 %re, %rc, 7; mov.b64 %d, {%rd, %re};", in,
         [](Input i) { return u32(i.a - i.b) | uint64_t(u32(i.c - 7 - (u32(i.a) < u32(i.b)))) << 32; });
  expect(r32("dp4a.s32.u32 %rd, %ra, %rb, %rc;"), in, [](Input i) {
    int64_t sum = s32(i.c);
    for (int k = 0; k < 4; ++k) sum += int64_t(int8_t(i.a >> 8 * k)) * uint8_t(i.b >> 8 * k);
    return u32(uint64_t(sum));
  });
  expect("sad.u64 %d, %a, %b, %c;", in, [](Input i) { return (i.a > i.b ? i.a - i.b : i.b - i.a) + i.c; });
}

TEST_CASE("bits", "[gpusim]") {
  auto in = integers();
  expect(r32("shl.b32 %rd, %ra, %rb;"), in, [](Input i) { return u32(i.b) > 31 ? 0 : u32(i.a << u32(i.b)); });
  expect(r32("shr.s32 %rd, %ra, %rb;"), in,
         [](Input i) { return u32(uint64_t(int64_t(s32(i.a)) >> std::min(u32(i.b), 32u))); });
  expect("shr.u64 %d, %a, %rb;", in, [](Input i) { return u32(i.b) > 63 ? 0 : i.a >> u32(i.b); });
  expect(r32("shf.l.wrap.b32 %rd, %ra, %rb, %rc;"), in,
         [](Input i) { return u32(((uint64_t(u32(i.b)) << 32 | u32(i.a)) << (i.c & 31)) >> 32); });
  expect(r32("shf.r.clamp.b32 %rd, %ra, %rb, %rc;"), in,
         [](Input i) { return u32((uint64_t(u32(i.b)) << 32 | u32(i.a)) >> std::min(u32(i.c), 32u)); });
  expect(r32("lop3.b32 %rd, %ra, %rb, %rc, 0xE8;"), in,
         [](Input i) { return u32((i.a & i.b) | (i.b & i.c) | (i.a & i.c)); });
  expect(r32("popc.b64 %rd, %a;"), in, [](Input i) { return uint64_t(__builtin_popcountll(i.a)); });
  expect(r32("clz.b32 %rd, %ra;"), in, [](Input i) { return uint64_t(u32(i.a) ? __builtin_clz(u32(i.a)) : 32); });
  expect(r32("bfind.s32 %rd, %ra;"), in, [](Input i) {
    uint32_t v = s32(i.a) < 0 ? ~u32(i.a) : u32(i.a);
    return v ? uint64_t(31 - __builtin_clz(v)) : 0xffffffff;
  });
  expect("brev.b64 %d, %a;", in, [](Input i) {
    uint64_t r = 0;
    for (int k = 0; k < 64; ++k) r |= (i.a >> k & 1) << (63 - k);
    return r;
  });
  expect(r32("bfe.s32 %rd, %ra, %rb, %rc;"), in, [](Input i) { // as the manual's loop says it
    uint32_t pos = i.b & 255, len = i.c & 255, sign = len == 0 ? 0 : u32(i.a) >> std::min(pos + len - 1, 31u) & 1,
             r = 0;
    for (uint32_t k = 0; k < 32; ++k) r |= (k < len && pos + k < 32 ? u32(i.a) >> (pos + k) & 1 : sign) << k;
    return uint64_t(r);
  });
  expect("bfi.b64 %d, %a, %b, %rb, %rc;", in, [](Input i) {
    uint32_t pos = i.b & 255, len = i.c & 255;
    uint64_t r = i.b;
    for (uint32_t k = 0; k < len && pos + k < 64; ++k)
      r = (r & ~(uint64_t(1) << (pos + k))) | (i.a >> k & 1) << (pos + k);
    return r;
  });
  expect(r32("prmt.b32 %rd, %ra, %rb, %rc;"), in, [](Input i) {
    uint64_t r = 0;
    for (int k = 0; k < 4; ++k) {
      uint32_t s = i.c >> 4 * k & 15, byte = (s & 4 ? i.b : i.a) >> 8 * (s & 3) & 255;
      r |= uint64_t(s & 8 ? (byte >> 7) * 255 : byte) << 8 * k;
    }
    return r;
  });
  expect("setp.lt.s64 %p|%s, %a, %b; selp.b64 %d, %a, %b, %p; @%s not.b64 %d, %d;", in,
         [](Input i) { return int64_t(i.a) < int64_t(i.b) ? i.a : ~i.b; });
  expect(r32("setp.gt.and.u32 %p, %ra, %rb, %q; selp.u32 %rd, 1, 0, %p;"), in,
         [](Input i) { return uint64_t(u32(i.a) > u32(i.b) && i.c); });
}

TEST_CASE("floating-point arithmetic, every rounding", "[gpusim]") {
  auto in = floats();
  expect(r32("add.f32 %rd, %ra, %rb;"), in, [](Input i) { return bits(f32(i.a) + f32(i.b)); });
  expect(r32("mul.rn.f32 %rd, %ra, %rb;"), in, [](Input i) { return bits(f32(i.a) * f32(i.b)); });
  expect(r32("fma.rn.f32 %rd, %ra, %rb, %rc;"), in,
         [](Input i) { return bits(std::fma(f32(i.a), f32(i.b), f32(i.c))); });
  expect(r32("div.rn.f32 %rd, %ra, %rb;"), in, [](Input i) { return bits(f32(i.a) / f32(i.b)); });
  expect(r32("sqrt.rn.f32 %rd, %ra;"), in, [](Input i) { return bits(std::sqrt(f32(i.a))); });
  expect(r32("add.sat.f32 %rd, %ra, %rb;"), in, [](Input i) {
    float s = f32(i.a) + f32(i.b);
    return s > 0 ? bits(std::min(s, 1.0f)) : 0;
  });
  auto flush = [](float f) { return std::fabs(f) < 0x1p-126f ? std::copysign(0.0f, f) : f; };
  expect(r32("mul.ftz.f32 %rd, %ra, %rb;"), in,
         [&](Input i) { return bits(flush(flush(f32(i.a)) * flush(f32(i.b)))); });
  for (auto [name, mode] : {std::pair{"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}}) {
    // A product of floats is exact in a long double.
    std::string text = name;
    int m = mode;
    expect(r32("mul." + text + ".f32 %rd, %ra, %rb;"), in, [m](Input i) {
      long double exact = (long double)f32(i.a) * f32(i.b);
      float nearest = f32(i.a) * f32(i.b);
      if (std::isinf(nearest) && !std::isinf(exact))
        nearest = std::copysign(3.4028235e38f, nearest), exact = std::copysign(1e300L, exact);
      if (std::fabs((double)exact) == 1e300)
        return bits(m == FE_TOWARDZERO || (m == FE_DOWNWARD) == (exact > 0) ? nearest
                                                                            : std::copysign(INFINITY, nearest));
      return bits(exact == 0 ? nearest : directed(exact, nearest, m));
    });
    expect(r32("cvt." + text + ".f32.f64 %rd, %a;"), in, [m](Input i) {
      double v = f64(i.a);
      return bits(v == 0 ? float(v) : directed(v, float(v), m));
    });
  }
  expect(r32("min.f32 %rd, %ra, %rb;"), in, [](Input i) {
    float a = f32(i.a), b = f32(i.b);
    if (a == 0 && b == 0) return bits(std::signbit(a) ? a : b);
    return bits(std::fmin(a, b));
  });
  expect(r32("max.NaN.f32 %rd, %ra, %rb;"), in, [](Input i) {
    float a = f32(i.a), b = f32(i.b);
    if (a != a || b != b) return bits(NAN);
    if (a == 0 && b == 0) return bits(std::signbit(a) ? b : a);
    return bits(std::max(a, b));
  });
  expect("fma.rn.f64 %d, %a, %b, %c;", in, [](Input i) { return bits(std::fma(f64(i.a), f64(i.b), f64(i.c))); });
  expect(r32("setp.ltu.f32 %p, %ra, %rb; selp.u32 %rd, 1, 0, %p;"), in,
         [](Input i) { return uint64_t(!(f32(i.a) >= f32(i.b))); });
  expect(r32("neg.f32 %rd, %ra;"), in, [](Input i) { return u32(i.a) ^ 0x80000000u; });
}

TEST_CASE("half precision is the compiler's", "[gpusim]") {
  // clang's _Float16 is another implementation; every result is rounded once.
  std::vector<Input> in;
  std::mt19937_64 random(9);
  for (uint64_t a = 0; a < 65536; a += 7) in.push_back({a, random() & 0xffff, random() & 0xffff});
  auto half = [](uint64_t v) { return __builtin_bit_cast(_Float16, uint16_t(v)); };
  auto out = [](_Float16 h) { return h != h ? uint64_t(0x7fff) : __builtin_bit_cast(uint16_t, h); };
  expect("add.f16 %hd, %ha, %hb; cvt.u64.u16 %d, %hd;", in, [&](Input i) { return out(half(i.a) + half(i.b)); });
  expect("mul.f16 %hd, %ha, %hb; cvt.u64.u16 %d, %hd;", in, [&](Input i) { return out(half(i.a) * half(i.b)); });
  expect("cvt.f32.f16 %rd, %ha; cvt.u64.u32 %d, %rd;", in, [&](Input i) { return bits(float(half(i.a))); });
  expect("cvt.f64.f16 %d, %ha;", in, [&](Input i) { return bits(double(half(i.a))); });
  expect("fma.rn.f16 %hd, %ha, %hb, %hc; cvt.u64.u16 %d, %hd;", in, [&](Input i) {
    // The sum of a product and a half has at most 80 bits; a long double of 64 tells all ties but those far apart
    // apart.
    long double exact = (long double)float(half(i.a)) * float(half(i.b)) + float(half(i.c));
    return out(_Float16(exact));
  });
  auto wide = floats();
  expect("cvt.rn.f16.f32 %hd, %ra; cvt.u64.u16 %d, %hd;", wide, [&](Input i) { return out(_Float16(f32(i.a))); });
  expect("cvt.rn.f16x2.f32 %rd, %ra, %rb; cvt.u64.u32 %d, %rd;", wide,
         [&](Input i) { return out(_Float16(f32(i.a))) << 16 | out(_Float16(f32(i.b))); });
  expect("cvt.rn.bf16.f32 %hd, %ra; cvt.u64.u16 %d, %hd;", wide, [&](Input i) {
    float f = f32(i.a);
    if (f != f) return uint64_t(0x7fff);
    uint64_t low = u32(i.a) & 0xffff, high = u32(i.a) >> 16;
    return high + (low > 0x8000 || (low == 0x8000 && (high & 1)));
  });
}

TEST_CASE("a float becomes the nearest TF32, ties away from zero", "[gpusim]") {
  std::vector<Input> in = floats();
  std::mt19937_64 random(21);
  for (int i = 0; i < 4000; ++i) { // ties, their neighbours, and whatever else
    uint64_t v = random() & 0xffffffff;
    if (i % 2) v = (v & ~0x1fffULL) + 0x1000 + uint64_t(i / 2 % 3) - 1;
    in.push_back({v, 0, 0});
  }
  expect(r32("cvt.rna.tf32.f32 %rd, %ra;"), in, [](Input i) {
    // Half of the last place that stays is added to the magnitude, and may carry into the exponent; the rest goes.
    if (f32(i.a) != f32(i.a)) return uint64_t(0x7fffffff);
    return uint64_t(std::isinf(f32(i.a)) ? u32(i.a) : (u32(i.a) + 0x1000) & 0xffffe000u);
  });
}

TEST_CASE("conversions between integers and floats", "[gpusim]") {
  auto in = floats();
  auto clamp32 = [](double v) { return v != v ? 0u : uint32_t(int32_t(std::clamp(v, -2147483648.0, 2147483647.0))); };
  expect(r32("cvt.rni.s32.f32 %rd, %ra;"), in, [&](Input i) { return clamp32(std::nearbyint(double(f32(i.a)))); });
  expect(r32("cvt.rmi.s32.f32 %rd, %ra;"), in, [&](Input i) { return clamp32(std::floor(double(f32(i.a)))); });
  expect(r32("cvt.rpi.f32.f32 %rd, %ra;"), in, [&](Input i) { return bits(std::ceil(f32(i.a))); });
  expect("cvt.rzi.u8.f32 %rd, %ra; cvt.u64.u32 %d, %rd;", in,
         [&](Input i) { return uint64_t(f32(i.a) > 0 ? std::min(std::trunc(f32(i.a)), 255.0f) : 0.0f); });
  auto whole = integers();
  expect(r32("cvt.rn.f32.s64 %rd, %a;"), whole, [](Input i) { return bits(float(int64_t(i.a))); });
  expect(r32("cvt.rz.f32.u64 %rd, %a;"), whole,
         [](Input i) { return bits(i.a ? directed((long double)i.a, float(i.a), FE_TOWARDZERO) : 0.0f); });
  expect("cvt.rn.f64.u64 %d, %a;", whole, [](Input i) { return bits(double(i.a)); });
  expect("cvt.s64.s8 %d, %a;", whole, [](Input i) { return uint64_t(int64_t(int8_t(i.a))); });
  expect("cvt.sat.u8.s32 %rd, %ra; cvt.u64.u32 %d, %rd;", whole,
         [](Input i) { return uint64_t(std::clamp(s32(i.a), 0, 255)); });
}

TEST_CASE("approximations are as good as they are said to be", "[gpusim]") {
  std::vector<Input> in;
  for (float f = 1e-30f; f < 1e30f; f *= 1.37f) in.push_back({__builtin_bit_cast(uint32_t, f), 0, 0});
  auto within = [&](const std::string &op, double (*exact)(double), double relative) {
    auto got = evaluate(r32(op + " %rd, %ra;"), in);
    for (size_t i = 0; i < in.size(); ++i)
      CHECK(double(f32(got[i])) == Approx(exact(f32(in[i].a))).epsilon(relative).margin(relative));
  };
  within("rcp.approx.f32", [](double v) { return 1 / v; }, 1.2e-7);
  within("sqrt.approx.f32", [](double v) { return std::sqrt(v); }, 1.2e-7);
  within("rsqrt.approx.f32", [](double v) { return 1 / std::sqrt(v); }, 2.4e-7);
  within("lg2.approx.f32", [](double v) { return std::log2(v); }, 2e-7);
  within("tanh.approx.f32", [](double v) { return std::tanh(v); }, 5e-4);
}
