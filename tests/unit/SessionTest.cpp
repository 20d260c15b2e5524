// Session: values, errors, variables, steady state.
// SPDX-License-Identifier: Apache-2.0
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <thread>

#ifndef OPC_THREAD_SANITIZER // whose runtime has these functions, and a program may not bring its own
namespace {
std::atomic<uint64_t> allocations{0};
}
// Counts every allocation of the test program: "allocates nothing" is asserted, not hoped for. Every form of new that
// meets one of these deletes is here: what one allocator gives another one must not take.
void *operator new(size_t n, const std::nothrow_t &) noexcept {
  ++allocations;
  return std::malloc(n ? n : 1);
}
void *operator new(size_t n) {
  if (void *p = operator new(n, std::nothrow)) return p;
  throw std::bad_alloc();
}
void *operator new(size_t n, std::align_val_t a, const std::nothrow_t &) noexcept {
  ++allocations;
  const size_t align = static_cast<size_t>(a);
  return std::aligned_alloc(align, (n + align - 1) / align * align);
}
void *operator new(size_t n, std::align_val_t a) {
  if (void *p = operator new(n, a, std::nothrow)) return p;
  throw std::bad_alloc();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, size_t) noexcept { std::free(p); }
void operator delete(void *p, const std::nothrow_t &) noexcept { std::free(p); }
void operator delete(void *p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept { std::free(p); }
void operator delete(void *p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace {

using namespace opc;
using namespace opc::test;

/// x -> n times +1 -> y, alternating between two registers' memory.
PlanBuilder chain(int n, int64_t elements = 8) {
  PlanBuilder b;
  uint32_t t = b.input("x", Shape{elements});
  for (int i = 0; i < n; ++i) {
    const uint32_t next = b.tensor("t" + std::to_string(i), Shape{elements});
    if (i >= 2)
      b.plan.mutable_register_(static_cast<int>(b.plan.register__size()) - 1)
          ->set_offset(b.plan.register_(b.plan.register__size() - 3).offset());
    b.add("add" + std::to_string(i), t, next, 1);
    t = next;
  }
  b.output("y", t);
  return b;
}

TEST_CASE("a session feeds, runs and fetches", "[session]") {
  PlanBuilder b = chain(5, 3);
  Session s = loaded(b);
  REQUIRE(s.interface().inputs.size() == 1);
  CHECK(s.interface().inputs[0].name == "x");
  CHECK(s.interface().inputs[0].desc.toString() == "f32[3]");
  CHECK(s.interface().outputs[0].name == "y");
  ok(s.feed("x", floats({1, 2, 3})));
  CHECK(s.fetch("y").status().id() == "OPC0613");
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{6, 7, 8});
  ok(s.feed("x", floats({0, 0, 0})));
  ok(s.run(10));
  CHECK(values(*s.fetch("y")) == std::vector<float>{5, 5, 5});
  CHECK(s.stats().steps == 11);
  CHECK(s.stats().tasks == 5);
}

TEST_CASE("a session reads a lent input where it lies", "[session]") {
  PlanBuilder b = chain(3, 2);
  Session s = loaded(b);
  HostTensor one = floats({1, 2}), two = floats({10, 20});
  REQUIRE(s.lendInput("x", one.data()));
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{4, 5});
  one.as<float>()[0] = 7; // seen without feeding again
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{10, 5});
  REQUIRE(s.lendInput("x", two.data()));
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{13, 23});
  ok(s.feed("x", floats({0, 0}))); // into the session's own memory again
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{3, 3});
  CHECK(values(two) == std::vector<float>{10, 20});
  CHECK_FALSE(s.lendInput("z", one.data()));
  CHECK_FALSE(s.lendInput("x", one.as<float>() + 1)); // not aligned
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{3, 3});
}

TEST_CASE("a session that gives packed weights back lends nothing", "[session]") {
  PlanBuilder b = chain(1, 2);
  SessionOptions options;
  options.keepPackedVariables = false;
  Session s = loaded(b, options);
  const HostTensor one = floats({1, 2});
  CHECK_FALSE(s.lendInput("x", one.data()));
  CHECK(s.run().id() == "OPC0610");
}

TEST_CASE("an output that is an input shows what was run until the next run", "[session]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2}), y = b.tensor("y", Shape{2});
  b.add("a", x, y, 1);
  b.output("same", x);
  b.output("y", y);
  Session s = loaded(b);
  ok(s.feed("x", floats({1, 2})));
  ok(s.run());
  const void *shown = s.outputData("same");
  const auto shows = [&](float first, float second) {
    CHECK(values(s.fetch("same")) == std::vector<float>{first, second});
    CHECK(values(s.fetch("y")) == std::vector<float>{first + 1, second + 1});
  };
  ok(s.feed("x", floats({3, 4})));
  shows(1, 2);
  CHECK(s.outputData("same") == shown);
  ok(s.run());
  shows(3, 4);
  auto *filled = static_cast<float *>(s.inputData("x"));
  CHECK(std::vector<float>(filled, filled + 2) == std::vector<float>{3, 4}); // what was given before
  filled[0] = 5;
  shows(3, 4);
  ok(s.run());
  shows(5, 4);
  filled[1] = 6; // the memory stays the input's
  ok(s.run());
  shows(5, 6);
  const HostTensor lent = floats({7, 8});
  CHECK_FALSE(s.lendInput("x", lent.data())); // it would show there
  ok(s.run());
  shows(5, 6);
}

TEST_CASE("an output that is a variable shows what was run until the next run", "[session]") {
  PlanBuilder b;
  const uint32_t w = b.variable("w", Shape{2}), y = b.tensor("y", Shape{2});
  b.add("a", w, y, 1);
  b.output("same", w);
  b.output("y", y);
  Session s = loaded(b);
  ok(s.setVariable("w", floats({1, 2})));
  ok(s.run());
  ok(s.setVariable("w", floats({3, 4})));
  CHECK(values(s.fetch("same")) == std::vector<float>{1, 2});
  CHECK(values(s.variable("w")) == std::vector<float>{3, 4});
  ok(s.prepare());
  CHECK(values(s.fetch("same")) == std::vector<float>{1, 2});
  ok(s.run(0));
  CHECK(values(s.fetch("same")) == std::vector<float>{1, 2});
  ok(s.run());
  CHECK(values(s.fetch("same")) == std::vector<float>{3, 4});
  CHECK(values(s.fetch("y")) == std::vector<float>{4, 5});
  CHECK(values(s.variable("w")) == std::vector<float>{3, 4});
}

TEST_CASE("a session says what is missing or wrong", "[session]") {
  PlanBuilder b;
  const uint32_t x = b.input("left", Shape{2}), z = b.input("right", Shape{2});
  const uint32_t y = b.tensor("y", Shape{2});
  b.add("a", x, y, 1);
  b.output("y", y);
  (void)z;
  Session s = loaded(b);
  const Status missing = s.run();
  CHECK(missing.id() == "OPC0610");
  CHECK(missing.code() == StatusCode::kUsage);
  CHECK(missing.message().find("left (f32[2]), right (f32[2])") != std::string::npos);
  CHECK(missing.help() == "give each with Session::feed (--input NAME=SPEC)");
  const Status unknown = s.feed("lefd", floats({1, 2}));
  CHECK(unknown.id() == "OPC0611");
  CHECK(unknown.help().find("'left'") != std::string::npos);
  CHECK(s.feed("left", floats({1, 2, 3})).id() == "OPC0704");
  Result<HostTensor> ints = HostTensor::create(kInt32, Shape{2});
  CHECK(s.feed("left", *ints).id() == "OPC0703");
  CHECK(s.fetch("q").status().id() == "OPC0611");
  CHECK(s.setVariable("w", floats({1})).id() == "OPC0611");
  ok(s.feed("left", floats({1, 2})));
  static_cast<float *>(s.inputData("right"))[0] = 3;
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{2, 3});
}

#ifndef OPC_THREAD_SANITIZER
TEST_CASE("a chain of 1,000 tasks runs without a single allocation", "[session]") {
  Session s = loaded(chain(1000));
  const HostTensor x = floats({0, 1, 2, 3, 4, 5, 6, 7});
  ok(s.feed("x", x));
  ok(s.run());
  const std::string in = "x", out = "y";
  const uint64_t before = allocations;
  bool fine = true;
  for (int i = 0; i < 100; ++i) fine &= s.feed(in, x).isOk() && s.run().isOk() && s.outputData(out) != nullptr;
  const uint64_t after = allocations;
  CHECK(fine);
  CHECK(after == before);
  CHECK(values(*s.fetch("y"))[3] == 1003);
}
#endif

TEST_CASE("a kernel's failure names the op and leaves the session usable", "[session]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{4}), y = b.tensor("y", Shape{1});
  const uint32_t w = b.tensor("tmp", Shape{16}, kUInt8, plan::Register::WORKSPACE);
  plan::Task *t = b.task("squares", "runtime_test_sum_squares", {{"in", {x}}}, {{"out", {y}}});
  t->set_workspace(w + 1);
  t->mutable_location()->set_file("g.pbtxt");
  t->mutable_location()->set_line(7);
  t->mutable_location()->set_column(3);
  b.output("y", y);
  Session s = loaded(b);
  ok(s.feed("x", floats({-1, 2, 3, 4})));
  const Status failed = s.run();
  CHECK(failed.code() == StatusCode::kExecution);
  CHECK(failed.id() == "OPC0601");
  CHECK(failed.message().find("the first element is negative") != std::string::npos);
  CHECK(failed.context() == "running op squares at g.pbtxt:7:3");
  CHECK(s.fetch("y").status().id() == "OPC0613");
  ok(s.feed("x", floats({1, 2, 3, 4})));
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{30});
  ok(s.feed("x", floats({-1, 2, 3, 4})));
  CHECK(s.run().id() == "OPC0601");
  ok(s.run(0)); // which computes nothing
  CHECK(s.fetch("y").status().id() == "OPC0613");
  CHECK(s.outputData("y") == nullptr);
}

TEST_CASE("variables come from weights or initializers, in any order the same", "[session]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2}), y = b.tensor("y", Shape{2});
  const uint32_t w = b.variable("w", Shape{1});
  b.lastVariable()->mutable_initializer()->mutable_constant_conf()->set_value(3);
  b.variable("r", Shape{64, 32});
  b.lastVariable()->mutable_initializer()->mutable_xavier_conf();
  b.variable("none", Shape{1});
  b.task("mul", "runtime_test_packed", {{"weight", {w}}, {"in", {x}}}, {{"out", {y}}});
  b.output("y", y);
  Session s = loaded(b);
  ok(s.feed("x", floats({1, 2})));
  const Status none = s.run();
  CHECK(none.id() == "OPC0612");
  CHECK(none.message().find("'none'") != std::string::npos);
  CHECK(none.help().find("give it with Session::setVariable (--weights FILE)") == 0);
  ok(s.setVariable("none", floats({1})));
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{3, 6});
  // The kernel packed the weight; a new value reaches it all the same.
  ok(s.setVariable("w", floats({10})));
  ok(s.run());
  CHECK(values(*s.fetch("y")) == std::vector<float>{10, 20});
  Result<HostTensor> first = s.variable("r");
  const float limit = std::sqrt(3.f / 32);
  for (float v : values(*first)) REQUIRE(std::abs(v) <= limit);
  SessionOptions other;
  other.seed = 1;
  Session same = loaded(b), different = loaded(b, other);
  CHECK(values(*same.variable("r")) == values(*first));
  CHECK(values(*different.variable("r")) != values(*first));
}

TEST_CASE("an update task changes a variable from step to step", "[session]") {
  PlanBuilder b;
  const uint32_t d = b.input("d", Shape{2}), w = b.variable("w", Shape{2}), y = b.tensor("y", Shape{2});
  b.lastVariable()->mutable_initializer()->mutable_constant_conf()->set_value(1);
  b.add("read", w, y, 0);
  b.task("update", "runtime_test_update", {{"model", {w}}, {"delta", {d}}}, {});
  b.output("y", y);
  Session s = loaded(b);
  ok(s.feed("d", floats({1, 2})));
  ok(s.run(3));
  CHECK(values(*s.fetch("y")) == std::vector<float>{3, 5}); // before the third update
  CHECK(values(*s.variable("w")) == std::vector<float>{4, 7});
}

TEST_CASE("sessions on several threads are independent", "[session]") {
  const std::string bytes = chain(50).encode();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { // without floats(), which asserts: Catch's assertions are for one thread
      SessionOptions options;
      options.threads = 1;
      Result<Session> s = Session::load(bytes, registry(), options);
      Result<HostTensor> x = HostTensor::create(kFloat, Shape{8});
      if (!s || !x) return void(++wrong);
      for (int round = 0; round < 50; ++round) {
        const float v = static_cast<float>(i * 100 + round);
        std::fill_n(x->as<float>(), 8, v);
        if (!s->feed("x", *x).isOk() || !s->run(3).isOk()) ++wrong;
        Result<HostTensor> y = s->fetch("y");
        if (!y || values(*y) != std::vector<float>(8, v + 50)) ++wrong;
      }
    });
  for (std::thread &t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a session has a number of threads that there can be", "[session]") {
  for (int threads : {-1, kMostThreads + 1}) {
    SessionOptions options;
    options.threads = threads;
    const Result<Session> session = Session::load(chain(2).encode(), registry(), options);
    REQUIRE_FALSE(session);
    CHECK(session.status().id() == "OPC0001");
    CHECK(session.status().message().find(std::to_string(threads) + ", expected at most 4096") != std::string::npos);
  }
}

TEST_CASE("a session has ranks and a time to wait that there can be", "[session]") {
  const auto refusal = [](const SessionOptions &options) {
    const Result<Session> session = Session::load(chain(2).encode(), registry(), options);
    REQUIRE_FALSE(session);
    CHECK(session.status().id() == "OPC0001");
    CHECK(session.status().code() == StatusCode::kUsage);
    return session.status().message();
  };
  SessionOptions options;
  options.ranks = -1;
  CHECK(refusal(options) == "SessionOptions::ranks is -1, expected 1 or more, or 0: as many as the plan is for");
  for (const double seconds : {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    options = {};
    options.timeout = seconds;
    CHECK(refusal(options).find("SessionOptions::timeout is ") == 0);
  }
}

TEST_CASE("memory over the limit is refused before it is taken", "[session]") {
  PlanBuilder b = chain(2);
  b.plan.mutable_arena(0)->set_bytes(uint64_t{1} << 62);
  const Status s = Session::load(b.encode(), registry(), {}).status();
  CHECK(s.id() == "OPC0821");
  CHECK(s.code() == StatusCode::kUnsupported);
  SessionOptions small;
  small.maxMemory = 10;
  const Status tight = Session::load(chain(2).encode(), registry(), small).status();
  CHECK(tight.id() == "OPC0821");
  CHECK(tight.help() == "raise SessionOptions::maxMemory (--max-memory)");
}

} // namespace
