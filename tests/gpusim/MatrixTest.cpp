// mma.sync and ldmatrix by the fragment tables of the PTX manual, against a plain product.
// SPDX-License-Identifier: Apache-2.0
#include "SimulatorFixture.h"

#include <cmath>
#include <functional>
#include <random>

using namespace opc::gpusim;
using namespace opc::gpusim::test;

namespace {

/// One product: where element i of a lane's fragments is, written from the manual and not from the simulator.
struct Mma {
  std::string name, bType, cType;
  int m, n, k, a, b, c; // elements a lane has of each
  int bits, bitsC;      // of an element
  std::function<void(int g, int t, int i, int *row, int *column)> atA, atB;
};

double value(const std::string &type, uint64_t bits) {
  if (type == "s8") return int8_t(bits);
  if (type == "u8") return uint8_t(bits);
  if (type == "f16") return double(__builtin_bit_cast(_Float16, uint16_t(bits)));
  if (type == "bf16") return __builtin_bit_cast(float, uint32_t(bits << 16));
  if (type == "f64") return __builtin_bit_cast(double, bits);
  return __builtin_bit_cast(float, uint32_t(bits));
}
uint64_t bitsOf(const std::string &type, double v) {
  if (type == "s8" || type == "u8") return uint8_t(int(v));
  if (type == "f16") return __builtin_bit_cast(uint16_t, _Float16(v));
  if (type == "bf16") return __builtin_bit_cast(uint32_t, float(v)) >> 16;
  if (type == "f64") return __builtin_bit_cast(uint64_t, v);
  return __builtin_bit_cast(uint32_t, float(v));
}

std::string registers(const std::string &prefix, int count) {
  std::string all = "{";
  for (int i = 0; i < count; ++i) all += (i ? ", " : "") + prefix + std::to_string(i);
  return all + "}";
}

/// Loads `count` registers of `bytes` each for the lane from a parameter's buffer, lane after lane.
std::string loads(const std::string &param, const std::string &prefix, int count, int bytes) {
  std::string text =
      "ld.param.u64 %p, [" + param + "]; mad.wide.u32 %p, %i, " + std::to_string(count * bytes) + ", %p;\n";
  for (int i = 0; i < count; ++i)
    text += "ld.global.b" + std::to_string(bytes * 8) + " " + prefix + std::to_string(i) + ", [%p+" +
            std::to_string(i * bytes) + "];\n";
  return text;
}

void check(const Mma &t) {
  INFO(t.name);
  int bytes = t.bits == 64 ? 8 : 4, bytesC = t.bitsC == 64 ? 8 : 4;
  int na = t.a * t.bits / (bytes * 8), nb = t.b * t.bits / (bytes * 8), nc = t.c * t.bitsC / (bytesC * 8);
  std::string stores = "ld.param.u64 %p, [d]; mad.wide.u32 %p, %i, " + std::to_string(nc * bytesC) + ", %p;\n";
  for (int i = 0; i < nc; ++i)
    stores += "st.global.b" + std::to_string(bytesC * 8) + " [%p+" + std::to_string(i * bytesC) + "], %d" +
              std::to_string(i) + ";\n";
  std::string type = bytes == 8 ? ".b64" : ".b32", typeC = bytesC == 8 ? ".b64" : ".b32";
  Device d(kHead +
           ".entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n.reg .b64 %p; .reg .b32 %i; .reg " +
           type + " %a<8>, %b<8>; .reg " + typeC + " %c<8>, %d<8>; mov.u32 %i, %tid.x;\n" +
           loads("a", "%a", na, bytes) + loads("b", "%b", nb, bytes) + loads("c", "%c", nc, bytesC) +
           "mma.sync.aligned." + t.name + " " + registers("%d", nc) + ", " + registers("%a", na) + ", " +
           registers("%b", nb) + ", " + registers("%c", nc) + ";\n" + stores + "ret;\n}");
  std::mt19937 random(11);
  std::vector<double> a(size_t(t.m * t.k)), b(size_t(t.k * t.n)), c(size_t(t.m * t.n)), want;
  bool integer = t.bits == 8;
  auto draw = [&](const std::string &kind) {
    return integer ? value(kind, random() & 255) : (int(random() % 65) - 32) / 16.0;
  };
  std::string aType = t.bType;
  for (double &v : a) v = draw(aType);
  for (double &v : b) v = draw(t.bType);
  for (double &v : c) v = int(random() % 64) - 32;
  want = c;
  for (int i = 0; i < t.m; ++i)
    for (int j = 0; j < t.n; ++j)
      for (int l = 0; l < t.k; ++l) want[size_t(i * t.n + j)] += a[size_t(i * t.k + l)] * b[size_t(l * t.n + j)];
  // The fragments as bytes, lane after lane.
  std::vector<uint8_t> fa, fb, fc;
  auto push = [](std::vector<uint8_t> &to, uint64_t bits, int width) {
    for (int i = 0; i < width / 8; ++i) to.push_back(uint8_t(bits >> (8 * i)));
  };
  auto atC = [&](int lane, int i) { return size_t((lane / 4 + (i >= 2 ? 8 : 0)) * t.n + lane % 4 * 2 + i % 2); };
  auto cBits = [&](double v) { return t.cType == "s32" ? uint64_t(uint32_t(int32_t(v))) : bitsOf(t.cType, v); };
  for (int lane = 0; lane < 32; ++lane) {
    int row, column;
    for (int i = 0; i < t.a; ++i)
      t.atA(lane / 4, lane % 4, i, &row, &column), push(fa, bitsOf(aType, a[size_t(row * t.k + column)]), t.bits);
    for (int i = 0; i < t.b; ++i)
      t.atB(lane / 4, lane % 4, i, &row, &column), push(fb, bitsOf(t.bType, b[size_t(row * t.n + column)]), t.bits);
    for (int i = 0; i < t.c; ++i) push(fc, cBits(c[atC(lane, i)]), t.bitsC);
  }
  uint64_t out = d.buffer(std::vector<uint8_t>(fc.size()));
  d.arg(d.buffer(fa)).arg(d.buffer(fb)).arg(d.buffer(fc)).arg(out);
  Outcome o = d.run({}, {32});
  INFO(texts(o));
  REQUIRE(o.findings.empty());
  std::vector<uint8_t> got = d.read<uint8_t>(out, fc.size());
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < t.c; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, &got[size_t((lane * t.c + i) * t.bitsC / 8)], size_t(t.bitsC / 8));
      double v = t.cType == "s32" ? int32_t(uint32_t(bits)) : value(t.cType, bits);
      // The values are short enough for every sum to be exact, but for f16's.
      double tolerance = t.cType == "f16" ? std::fabs(want[atC(lane, i)]) * 0x1p-11 : 0;
      REQUIRE(std::fabs(v - want[atC(lane, i)]) <= tolerance);
    }
}

} // namespace

TEST_CASE("mma.sync is a product of matrices", "[gpusim]") {
  auto a16 = [](int g, int t, int i, int *row, int *column) {
    *row = g + ((i / 2) % 2 ? 8 : 0), *column = t * 2 + i % 2 + (i >= 4 ? 8 : 0);
  };
  auto b16 = [](int g, int t, int i, int *row, int *column) { *row = t * 2 + i % 2 + (i >= 2 ? 8 : 0), *column = g; };
  auto a32 = [](int g, int t, int i, int *row, int *column) {
    *row = g + (i % 2 ? 8 : 0), *column = t + (i >= 2 ? 4 : 0);
  };
  auto b32 = [](int g, int t, int i, int *row, int *column) { *row = t + 4 * i, *column = g; };
  auto a8 = [](int g, int t, int i, int *row, int *column) {
    *row = i < 4 || (i >= 8 && i < 12) ? g : g + 8, *column = t * 4 + i % 4 + (i >= 8 ? 16 : 0);
  };
  auto b8 = [](int g, int t, int i, int *row, int *column) { *row = t * 4 + i % 4 + (i >= 4 ? 16 : 0), *column = g; };
  check({"m16n8k16.row.col.f32.f16.f16.f32", "f16", "f32", 16, 8, 16, 8, 4, 4, 16, 32, a16, b16});
  check({"m16n8k8.row.col.f32.f16.f16.f32", "f16", "f32", 16, 8, 8, 4, 2, 4, 16, 32, a16, b16});
  check({"m16n8k16.row.col.f16.f16.f16.f16", "f16", "f16", 16, 8, 16, 8, 4, 4, 16, 16, a16, b16});
  check({"m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", "f32", 16, 8, 16, 8, 4, 4, 16, 32, a16, b16});
  check({"m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", "f32", 16, 8, 8, 4, 2, 4, 32, 32, a32, b32});
  check({"m16n8k4.row.col.f32.tf32.tf32.f32", "tf32", "f32", 16, 8, 4, 2, 1, 4, 32, 32, a32, b32});
  check({"m16n8k32.row.col.s32.s8.s8.s32", "s8", "s32", 16, 8, 32, 16, 8, 4, 8, 32, a8, b8});
  check({"m16n8k16.row.col.s32.u8.u8.s32", "u8", "s32", 16, 8, 16, 8, 4, 4, 8, 32, a8, b8});
  check({"m8n8k4.row.col.f64.f64.f64.f64", "f64", "f64", 8, 8, 4, 1, 1, 2, 64, 64, a32, b32});
}

TEST_CASE("ldmatrix hands rows to lanes", "[gpusim]") {
  for (bool transposed : {false, true}) {
    Device d(
        kHead +
        ".entry k(.param .u64 out) {\n.shared .align 16 .b8 s[512]; .reg .b64 %p; .reg .b32 %i, %s, %r<4>; .reg .b16 %h; ld.param.u64 %p, [out]; mov.u32 %i, %tid.x; mad.wide.u32 %p, %i, 16, %p;\n"
        "shl.b32 %s, %i, 4; shl.b32 %r0, %i, 3;\n" +
        [] {
          std::string fill;
          for (int k = 0; k < 8; ++k)
            fill += "add.u32 %r1, %r0, " + std::to_string(k) + "; cvt.u16.u32 %h, %r1; st.shared.b16 [%s+" +
                    std::to_string(2 * k) + "], %h;\n";
          return fill;
        }() +
        "bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x4" + (transposed ? ".trans" : "") +
        ".shared.b16 {%r0, %r1, %r2, %r3}, [%s]; st.global.v4.b32 [%p], {%r0, %r1, %r2, %r3}; ret; }");
    uint64_t out = d.buffer(std::vector<uint32_t>(128));
    d.arg(out);
    Outcome o = d.run({}, {32});
    INFO(texts(o));
    REQUIRE(o.findings.empty());
    auto got = d.read<uint16_t>(out, 256);
    for (int lane = 0; lane < 32; ++lane)
      for (int m = 0; m < 4; ++m)
        for (int e = 0; e < 2; ++e) {
          int row = transposed ? lane % 4 * 2 + e : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + e;
          REQUIRE(got[size_t(lane * 8 + m * 2 + e)] == (m * 8 + row) * 8 + column);
        }
  }
}
