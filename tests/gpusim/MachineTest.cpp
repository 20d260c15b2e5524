// What a launch does besides arithmetic: memory, limits, counters, accessed bytes, lanes of a warp, calls.
// SPDX-License-Identifier: Apache-2.0
#include "SimulatorFixture.h"

#include <csignal>
#include <functional>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

using namespace opc::gpusim;
using namespace opc::gpusim::test;

namespace {

/// %i: thread, %g: global thread; %in and %out are addresses, of which each thread's ints are at [%inI] and [%outI].
std::string kernel(const std::string &body, const std::string &before = "") {
  return kHead + before + R"(
.visible .entry k(.param .u64 out, .param .u64 in, .param .u32 n) {
  .reg .b64 %in, %out, %inI, %outI, %x<9>; .reg .b32 %i, %g, %n, %r<9>; .reg .b32 %f<16>; .reg .b16 %h<4>; .reg .pred %p<4>; .reg .f64 %y<8>;
  ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; ld.param.u32 %n, [n];
  mov.u32 %i, %tid.x; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mad.lo.s32 %g, %r0, %r1, %i;
  mad.wide.u32 %inI, %g, 4, %in; mad.wide.u32 %outI, %g, 4, %out;
)" + body +
         "\n ret;\n}\n";
}

struct Ran {
  Outcome outcome;
  std::vector<uint32_t> out;
};

Ran launch(const std::string &body, Dim3 grid, Dim3 block, uint64_t seed = 0, const std::string &before = "") {
  Device d(kernel(body, before));
  std::vector<uint32_t> in(4096);
  std::iota(in.begin(), in.end(), 0);
  uint64_t out = d.buffer(std::vector<uint32_t>(4096)), from = d.buffer(in);
  d.arg(out).arg(from).arg(uint32_t(4096));
  Ran r;
  r.outcome = d.run(grid, block, seed);
  INFO(texts(r.outcome));
  CHECK(r.outcome.findings.empty());
  r.out = d.read<uint32_t>(out, 4096);
  return r;
}

void each(const std::string &body, const std::function<uint32_t(uint32_t)> &formula, uint32_t threads = 64,
          const std::string &before = "") {
  for (uint64_t seed : {0, 1, 2}) {
    Ran r = launch(body, {}, {threads}, seed, before);
    for (uint32_t i = 0; i < threads; ++i) {
      INFO(body << ", thread " << i << ", seed " << seed);
      REQUIRE(r.out[i] == formula(i));
    }
  }
}

} // namespace

TEST_CASE("memory knows what was written", "[gpusim]") {
  Memory m(1 << 20);
  CHECK(m.allocate(0) == 0);
  CHECK(m.allocate(2 << 20) == 0);
  uint64_t a = m.allocate(1000), b = m.allocate(1000);
  REQUIRE((a && b && a % 512 == 0 && b % 512 == 0));
  CHECK(m.used() == 2000);
  uint32_t value = 7, got = 0;
  CHECK(m.write(a + 4, &value, 4));
  uint64_t first = 0;
  CHECK_FALSE(m.read(&got, a + 2, 4, &first));
  CHECK(first == a + 2);
  CHECK(m.read(&got, a + 4, 4, &first));
  CHECK(got == 7);
  CHECK(m.read(&got, a, 4));
  CHECK(got == 0xb5b5b5b5);
  CHECK_FALSE(m.write(a + 998, &value, 4));
  CHECK_FALSE(m.read(&got, b + 1000, 4));
  CHECK(Memory::copy(m, b, m, a, 1000));
  CHECK(m.read(&got, b + 4, 4, &first));
  CHECK_FALSE(m.read(&got, b + 8, 4, &first));
  CHECK(m.forget(b, 1000));
  CHECK_FALSE(m.read(&got, b + 4, 4, &first));
  CHECK(m.nearest(a + 1003) == "3 bytes behind the end of the allocation of 1000 bytes at " + [&] {
    char t[32];
    std::snprintf(t, sizeof t, "0x%llx", (unsigned long long)a);
    return std::string(t);
  }());
  CHECK(m.release(a));
  CHECK_FALSE(m.release(a));
  CHECK(m.find(a) == nullptr);
}

TEST_CASE("a host that follows a device pointer ends", "[gpusim]") {
  Memory m(1 << 20);
  auto *p = reinterpret_cast<volatile char *>(m.allocate(64));
  pid_t child = fork();
  if (child == 0) {
    for (int s : {SIGSEGV, SIGBUS}) std::signal(s, SIG_DFL);
    char c = *p;
    _exit(c == 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) > 1));
}

TEST_CASE("limits of a launch", "[gpusim]") {
  Device d(kHead + ".entry k() .maxntid 64 { .shared .b8 s[40000]; ret; }");
  auto error = [&](Dim3 grid, Dim3 block, uint32_t shared = 0) {
    d.launch.dynamicShared = shared;
    return d.run(grid, block).cudaError;
  };
  CHECK(error({}, {64}) == 0);
  CHECK(error({}, {65}) == kCudaLaunchOutOfResources);
  CHECK(error({}, {1025}) == kCudaInvalidValue);
  CHECK(error({}, {8, 8, 128}) == kCudaInvalidValue);
  CHECK(error({0}, {64}) == kCudaInvalidValue);
  CHECK(error({1, 65536}, {64}) == kCudaInvalidValue);
  CHECK(error({}, {64}, 9152) == 0);
  CHECK(error({}, {64}, 9153) == kCudaInvalidValue);
  d.launch.kernel = "other";
  CHECK(error({}, {64}) == kCudaNotFound);
}

TEST_CASE("what is not known is a finding with its line", "[gpusim]") {
  Device d(kHead + ".entry k() {\n.reg .b32 %r<4>;\ntex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [%r0];\nret;\n}");
  Outcome o = d.run({}, {32});
  REQUIRE(o.findings.size() == 1);
  CHECK(d.loaded->notSupported().size() == 1);
  CHECK(o.findings[0].kind == "not supported");
  CHECK(o.findings[0].ptxLine == 6);
  CHECK_THAT(o.findings[0].message, Catch::StartsWith("tex.1d.v4.s32.s32: "));
}

TEST_CASE("sectors, wavefronts and lanes are counted", "[gpusim]") {
  // A line of 32 lanes x 4 bytes is 4 sectors; with a stride of k words min(32, 4 k).
  for (uint32_t stride : {1u, 2u, 4u, 8u, 16u}) {
    Ran r = launch("mul.lo.u32 %r2, %i, " + std::to_string(stride) +
                       "; mad.wide.u32 %x0, %r2, 4, %in; ld.global.b32 %r3, [%x0]; st.global.b32 [%outI], %r3;",
                   {}, {32});
    CHECK(r.outcome.counters.sectors == std::min(32u, 4 * stride) + 4);
    CHECK(r.outcome.counters.idealSectors == 8);
    CHECK(r.outcome.counters.bytesRead == 128);
    CHECK(r.outcome.counters.bytesWritten == 128);
  }
  // Shared memory has 32 banks: a stride of 2^k words makes 2^k lanes meet.
  for (uint32_t stride : {1u, 2u, 4u, 32u}) {
    Ran r = launch(".shared .align 4 .b8 s[4096]; mul.lo.u32 %r2, %i, " + std::to_string(4 * stride) +
                       "; st.shared.b32 [%r2], %i;",
                   {}, {32});
    CHECK(r.outcome.counters.wavefronts == stride);
    CHECK(r.outcome.counters.idealWavefronts == 1);
  }
  Ran r = launch("setp.lt.u32 %p0, %i, 8; @%p0 st.global.b32 [%outI], %i;", {2}, {32});
  REQUIRE(!r.outcome.lines.empty());
  uint64_t lanes = 0, instructions = 0;
  for (const LineCounters &l : r.outcome.lines) lanes += l.counters.lanes, instructions += l.counters.instructions;
  CHECK(lanes == r.outcome.counters.lanes);
  CHECK(instructions == r.outcome.counters.instructions);
  CHECK(lanes == (instructions - 2) * 32 + 2 * 8); // all but one instruction of each of two warps have all lanes
}

TEST_CASE("the bytes that a launch touched", "[gpusim]") {
  Device d(kernel(
      "ld.global.b16 %h0, [%inI+2]; st.global.b8 [%outI], %h0; @%p0 bra L; atom.global.add.u32 %r3, [%out+2048], 1; L:"));
  uint64_t out = d.buffer(std::vector<uint32_t>(1024)), in = d.buffer(std::vector<uint32_t>(1024));
  d.arg(out).arg(in).arg(1u);
  Outcome o = d.run({2}, {32}, 5);
  CHECK(texts(o) == "");
  REQUIRE(o.accesses.reads.size() == 64);
  CHECK((o.accesses.reads[3].begin == in + 14 && o.accesses.reads[3].end == in + 16));
  REQUIRE(o.accesses.writes.size() == 64);
  CHECK((o.accesses.writes[63].begin == out + 252 && o.accesses.writes[63].end == out + 253));
  REQUIRE(o.accesses.atomics.size() == 1);
  CHECK((o.accesses.atomics[0].begin == out + 2048 && o.accesses.atomics[0].end == out + 2052));
}

TEST_CASE("lanes exchange", "[gpusim]") {
  const std::string store = "st.global.b32 [%outI], %r3;", load = "ld.global.b32 %r2, [%inI]; ";
  each(load + "shfl.sync.up.b32 %r3, %r2, 3, 0, -1; " + store, [](uint32_t i) { return i % 32 >= 3 ? i - 3 : i; });
  each(load + "shfl.sync.down.b32 %r3|%p0, %r2, 5, 31, -1; selp.b32 %r3, %r3, 999, %p0; " + store,
       [](uint32_t i) { return i % 32 + 5 < 32 ? i + 5 : 999; });
  each(load + "shfl.sync.bfly.b32 %r3, %r2, 9, 31, -1; " + store, [](uint32_t i) { return i ^ 9; });
  each(load + "mov.u32 %r4, 3; shfl.sync.idx.b32 %r3, %r2, %r4, 0x181f, -1; " + store,
       [](uint32_t i) { return (i & ~7u) + 3; });
  each("and.b32 %r2, %i, 1; setp.ne.u32 %p0, %r2, 0; vote.sync.ballot.b32 %r3, %p0, -1; " + store,
       [](uint32_t) { return 0xaaaaaaaau; });
  each("setp.lt.u32 %p0, %i, 40; vote.sync.all.pred %p1, %p0, -1; selp.b32 %r3, 1, 0, %p1; " + store,
       [](uint32_t i) { return i < 32 ? 1u : 0u; });
  each("shr.u32 %r2, %i, 3; match.any.sync.b32 %r3, %r2, -1; " + store,
       [](uint32_t i) { return 0xffu << (i % 32 / 8 * 8); });
  each("redux.sync.max.s32 %r3, %i, -1; " + store, [](uint32_t i) { return i | 31; });
  // Two halves meet at different instructions, with masks of their own and then with one for all.
  each(
      "setp.lt.u32 %p0, %i, 16; @%p0 bra A; redux.sync.add.s32 %r3, %i, 0xffff0000; bra B; A: redux.sync.add.s32 %r3, %i, 0x0000ffff; B: redux.sync.min.u32 %r4, %r3, -1; add.u32 %r3, %r3, %r4; " +
          store,
      [](uint32_t i) { return (i < 16 ? 120u : 376u) + 120u; }, 32);
}

TEST_CASE("branches, tables, calls, recursion, pointers to functions", "[gpusim]") {
  each(
      "mov.u32 %r3, 0; L: add.u32 %r3, %r3, %i; sub.u32 %r2, %r3, 100; setp.lt.s32 %p0, %r2, 0; setp.ne.u32 %p1, %i, 0; and.pred %p0, %p0, %p1; @%p0 bra L; st.global.b32 [%outI], %r3;",
      [](uint32_t i) { return i ? (100 + i - 1) / i * i : 0; });
  each(
      "and.b32 %r2, %i, 3; T: .branchtargets A, B, C, A; brx.idx %r2, T; A: mov.u32 %r3, 5; bra E; B: mov.u32 %r3, 6; bra E; C: mov.u32 %r3, 7; E: st.global.b32 [%outI], %r3;",
      [](uint32_t i) { return i % 4 == 1   ? 6u
                              : i % 4 == 2 ? 7u
                                           : 5u; });
  const std::string functions = R"(
.func (.param .b32 r) sum(.param .b32 n) { .reg .b32 %n, %m; .reg .pred %p; ld.param.b32 %n, [n]; setp.eq.u32 %p, %n, 0; @%p bra Z; sub.u32 %m, %n, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %m; call (b), sum, (a); ld.param.b32 %m, [b]; } add.u32 %n, %n, %m; Z: st.param.b32 [r], %n; ret; }
.func (.param .b32 r) twice(.param .b32 n) { .reg .b32 %n; ld.param.b32 %n, [n]; add.u32 %n, %n, %n; st.param.b32 [r], %n; ret; }
.global .align 8 .u64 both[2] = {sum, twice};
)";
  const std::string call = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %i; call (b), ";
  each(
      call + "sum, (a); ld.param.b32 %r3, [b]; } st.global.b32 [%outI], %r3;",
      [](uint32_t i) { return i * (i + 1) / 2; }, 64, functions);
  each(
      "and.b32 %r2, %i, 1; mov.u64 %x0, both; mad.wide.u32 %x0, %r2, 8, %x0; ld.global.u64 %x1, [%x0]; P: .callprototype (.param .b32 _) _ (.param .b32 _);" +
          call + "%x1, (a), P; ld.param.b32 %r3, [b]; } st.global.b32 [%outI], %r3;",
      [](uint32_t i) { return i & 1 ? 2 * i : i * (i + 1) / 2; }, 64, functions);
}

TEST_CASE("barriers reduce, name and count", "[gpusim]") {
  each(
      "and.b32 %r2, %i, 7; setp.eq.u32 %p0, %r2, 0; bar.red.popc.u32 %r3, 0, %p0; st.global.b32 [%outI], %r3;",
      [](uint32_t) { return 12u; }, 96);
  each(
      "setp.ne.u32 %p0, %i, 70; bar.red.and.pred %p1, 0, %p0; selp.b32 %r3, 1, 2, %p1; st.global.b32 [%outI], %r3;",
      [](uint32_t) { return 2u; }, 96);
  // A producer arrives, a consumer waits.
  each(
      ".shared .align 4 .b8 s[128]; shl.b32 %r2, %i, 2; mov.u32 %r3, 0; setp.lt.u32 %p0, %i, 32; @%p0 bra A; sub.u32 %r2, %r2, 128; bar.sync 3, 64; ld.shared.b32 %r3, [%r2]; bra E; A: st.shared.b32 [%r2], %i; bar.arrive 3, 64; E: st.global.b32 [%outI], %r3;",
      [](uint32_t i) { return i < 32 ? 0 : i - 32; });
}

TEST_CASE("a barrier for no threads is found", "[gpusim]") {
  for (const char *text : {"bar.sync 0, 0;", "bar.arrive 1, 0;", "mov.u32 %r1, 0; barrier.sync 2, %r1;"}) {
    Device d(kHead + ".entry k() {\n.reg .b32 %r<2>;\n" + text + "\nret;\n}");
    Outcome o = d.run({}, {32});
    INFO(text);
    REQUIRE(o.findings.size() == 1);
    CHECK(o.findings[0].kind == "barrier");
    CHECK(o.findings[0].ptxLine == 6);
    CHECK(o.findings[0].message == "a barrier counts whole warps, not 0 threads");
  }
}

TEST_CASE("a finding says whether the launch went on", "[gpusim]") {
  Device d(kHead + ".entry k() {\n.reg .b32 %r<2>;\n.shared .align 4 .b32 s;\nmov.u32 %r0, %tid.x;\n"
                   "st.shared.u32 [s], %r0;\ntrap;\n}");
  Outcome o = d.run({}, {64});
  REQUIRE(o.findings.size() >= 1);
  for (const Finding &f : o.findings) CHECK(f.ends == (f.kind == "trap"));
  CHECK(o.findings.back().kind == "trap");
  Device race(kHead + ".entry k() {\n.reg .b32 %r<2>;\n.shared .align 4 .b32 s;\nmov.u32 %r0, %tid.x;\n"
                      "st.shared.u32 [s], %r0;\nret;\n}");
  CHECK_FALSE(race.run({}, {64}).findings.at(0).ends);
  race.launch.findingLimit = 1;
  CHECK(race.run({}, {64}).findings.at(0).ends);
}

TEST_CASE("atomics", "[gpusim]") {
  for (uint64_t seed : {0, 1, 2}) {
    Ran r = launch(
        "red.global.add.u32 [%out], %g; atom.global.max.s32 %r2, [%out+4], %g; cvt.rn.f32.u32 %f0, %g; red.global.add.f32 [%out+8], %f0; atom.global.inc.u32 %r3, [%out+12], 9; mov.b32 %r4, 0x3c003c00; red.global.add.noftz.f16x2 [%out+16], %r4;"
        "M: ld.relaxed.gpu.global.u32 %r5, [%out+20]; add.u32 %r6, %r5, 2; atom.global.cas.b32 %r7, [%out+20], %r5, %r6; setp.ne.u32 %p0, %r7, %r5; @%p0 bra M;",
        {3}, {64}, seed);
    CHECK(r.out[0] == 192 * 191 / 2);
    CHECK(r.out[1] == 191);
    CHECK(__builtin_bit_cast(float, r.out[2]) == 192 * 191 / 2);
    CHECK(r.out[3] == 192 % 10);
    CHECK(r.out[4] == 0x5a005a00); // 192 in f16
    CHECK(r.out[5] == 384);
  }
}

TEST_CASE("asynchronous copies read where they are told to", "[gpusim]") {
  // Offsets of both signs; a source that is shorter than the copy leaves zeroes.
  const std::string shared = ".shared .align 16 .b8 s[1024]; shl.b32 %r2, %i, 4; mad.wide.u32 %x0, %i, 16, %in; ";
  const std::string wait =
      " cp.async.commit_group; cp.async.wait_group 0; ld.shared.b32 %r3, [%r2+4]; st.global.b32 [%outI], %r3;";
  each(shared + "add.u64 %x0, %x0, 256; cp.async.cg.shared.global [%r2], [%x0+-64], 16;" + wait,
       [](uint32_t i) { return 4 * i + 48 + 1; });
  each(
      shared +
          "add.u32 %r4, %r2, 32; cp.async.ca.shared.global [%r4+-32], [%x0+4], 4; cp.async.ca.shared.global [%r2+4], [%x0+8], 4;" +
          wait,
      [](uint32_t i) { return 4 * i + 2; });
  each(shared + "mov.u32 %r5, 4; cp.async.cg.shared.global [%r2], [%x0], 16, %r5;" + wait, [](uint32_t) { return 0u; });
}

TEST_CASE("a seed gives one order, and only one", "[gpusim]") {
  const std::string body = "atom.global.add.u32 %r3, [%out+8192], 1; st.global.b32 [%outI], %r3;";
  CHECK(launch(body, {4}, {96}, 7).out == launch(body, {4}, {96}, 7).out);
  CHECK(launch(body, {4}, {96}, 7).out != launch(body, {4}, {96}, 8).out);
}
