// Plans with sizes in a range: sessions that take several, and expressions that are refused before anything runs.
// SPDX-License-Identifier: Apache-2.0
#include "PlanSizes.h"
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <functional>
#include <numeric>

using namespace opc;
using namespace opc::test;

namespace {

/// y = (x + 1) + w for x of [n,4] with n from 1 to 64, and z = x + 10; w is a variable of [1,4].
struct SizedPlan {
  PlanBuilder b;
  uint32_t x, middle, z, w, y;

  SizedPlan() {
    x = b.input("x", Shape{64, 4});
    w = b.variable("w", Shape{4});
    middle = b.tensor("middle", Shape{64, 4}), y = b.tensor("y", Shape{64, 4}), z = b.tensor("z", Shape{64, 4});
    b.add("first", x, middle, 1);
    b.add("second", middle, y, 100);
    b.add("third", x, z, 10);
    b.output("y", y);
    b.output("z", z);
    size("n", 1, 64);
    for (uint32_t t : {x, middle, y, z}) open(t, 0, 0);
  }
  void size(const std::string &name, int64_t min, int64_t max) {
    plan::Size *s = b.plan.add_size();
    s->set_name(name);
    s->set_min(min);
    s->set_max(max);
  }
  plan::Tensor *tensor(uint32_t t) { return b.plan.mutable_tensor(static_cast<int>(t)); }
  /// The dimension is the size.
  plan::Extent::Factor *open(uint32_t t, int axis, int size) {
    plan::Tensor *tensor = b.plan.mutable_tensor(static_cast<int>(t));
    if (tensor->bound_size() == 0)
      for (int64_t d : tensor->dim()) tensor->add_bound(d), tensor->add_extent();
    tensor->set_dim(axis, -1);
    auto *factor = tensor->mutable_extent(axis)->add_factor();
    for (int i = 0; i < size; ++i) factor->add_coefficient(0);
    factor->add_coefficient(1);
    return factor;
  }
  plan::Extent::Factor *factor(uint32_t t) { return tensor(t)->mutable_extent(0)->mutable_factor(0); }
};

std::vector<float> iota(int64_t rows, float first) {
  std::vector<float> v(static_cast<size_t>(rows) * 4);
  std::iota(v.begin(), v.end(), first);
  return v;
}

void check(Session &s, int64_t rows, float first) {
  INFO(rows << " rows");
  ok(s.feed("x", floats(iota(rows, first), Shape{rows, 4})));
  ok(s.run());
  CHECK(values(s.fetch("y")) == iota(rows, first + 101));
  CHECK(values(s.fetch("z")) == iota(rows, first + 10));
  CHECK(s.fetch("y")->shape() == Shape{rows, 4});
  CHECK(s.interface().outputs[0].desc.shape() == Shape{rows, 4});
}

Status errorOf(const std::function<void(SizedPlan *)> &damage) {
  SizedPlan p;
  damage(&p);
  return Session::load(encodePlan(p.b.plan), registry()).status();
}
std::string reason(const std::function<void(SizedPlan *)> &damage) {
  const Status s = errorOf(damage);
  CHECK(s.id() == "OPC0822");
  CHECK(s.code() == StatusCode::kInvalidGraph);
  return s.message();
}

} // namespace

using Catch::Contains;

TEST_CASE("one session takes every size of the range, in any order", "[plansizes]") {
  SizedPlan p;
  Session s = loaded(p.b);
  REQUIRE(s.interface().sizes.size() == 1);
  CHECK(s.interface().sizes[0].name == "n");
  CHECK(s.interface().inputs[0].sizes == "n,4");
  CHECK(s.interface().inputs[0].desc.shape() == Shape{64, 4});
  CHECK(s.interface().inputs[0].smallest == Shape{1, 4});
  const uint64_t arena = s.stats().arenaBytes;
  ok(s.setVariable("w", floats({0, 0, 0, 0})));
  float first = 0;
  for (int64_t rows : {7, 64, 1, 7, 63, 2, 3, 4, 5, 6, 7, 64, 64}) check(s, rows, first += 1000);
  CHECK(s.step() == 13);
  CHECK(s.stats().arenaBytes == arena);
}

TEST_CASE("a shape outside the range is refused and changes nothing", "[plansizes]") {
  SizedPlan p;
  Session s = loaded(p.b);
  ok(s.setVariable("w", floats({0, 0, 0, 0})));
  check(s, 5, 1);
  Status bad = s.feed("x", floats(iota(65, 0), Shape{65, 4}));
  CHECK(bad.id() == "OPC0704");
  CHECK(bad.code() == StatusCode::kUsage);
  CHECK_THAT(bad.message(), Contains("input 'x' is f32[65,4], expected f32[n,4] with n from 1 to 64"));
  CHECK(s.feed("x", floats({}, Shape{0, 4})).id() == "OPC0704");
  bad = s.feed("x", floats(iota(3, 0), Shape{4, 3}));
  CHECK_THAT(bad.message(), Contains("input 'x' is f32[4,3], expected f32[n,4]"));
  CHECK(s.setInputShape("x", Shape{3}).id() == "OPC0704");
  CHECK(s.setInputShape("nobody", Shape{3}).id() == "OPC0611");
  ok(s.run());
  CHECK(values(s.fetch("y")) == iota(5, 102));
}

TEST_CASE("outputs of other sizes are not shown before they are computed", "[plansizes]") {
  SizedPlan p;
  Session s = loaded(p.b);
  ok(s.setVariable("w", floats({0, 0, 0, 0})));
  check(s, 5, 1);
  ok(s.setInputShape("x", Shape{9, 4}));
  CHECK(s.run().id() == "OPC0610");            // five rows are no nine
  CHECK(values(s.fetch("y")) == iota(5, 102)); // until the session is prepared for them
  ok(s.prepare());
  CHECK(s.fetch("y").status().id() == "OPC0613");
  CHECK(s.outputData("y") == nullptr);
  auto *data = static_cast<float *>(s.inputData("x"));
  REQUIRE(data != nullptr);
  for (int i = 0; i < 36; ++i) data[i] = static_cast<float>(i);
  ok(s.run(0));
  CHECK(s.fetch("y").status().id() == "OPC0613"); // no step has computed nine rows
  ok(s.run());
  CHECK(values(s.fetch("z")) == iota(9, 10));
  CHECK_FALSE(s.lendInput("x", data)); // another size may follow
}

TEST_CASE("inputs that share a size must agree about it", "[plansizes]") {
  SizedPlan p;
  const uint32_t t = p.b.input("t", Shape{64}), u = p.b.tensor("u", Shape{64});
  p.b.add("fourth", t, u, 5);
  p.b.output("u", u);
  p.open(t, 0, 0), p.open(u, 0, 0);
  Session s = loaded(p.b);
  ok(s.setVariable("w", floats({0, 0, 0, 0})));
  ok(s.setInputShape("x", Shape{2, 4}));
  CHECK(s.interface().inputs[1].desc.shape() == Shape{2}); // it follows
  ok(s.feed("x", floats(iota(2, 0), Shape{2, 4})));
  ok(s.feed("t", floats({1, 2, 3})));
  const Status bad = s.run();
  CHECK(bad.id() == "OPC0704");
  CHECK_THAT(bad.message(),
             Contains("input 'x' is f32[2,4] (f32[n,4]) and input 't' is f32[3] (f32[n]): they disagree about n"));
  ok(s.feed("t", floats({1, 2})));
  ok(s.run());
  CHECK(values(s.fetch("u")) == std::vector<float>{6, 7});
}

TEST_CASE("a session that gave its weights back stays at its size", "[plansizes]") {
  SizedPlan p;
  SessionOptions options;
  options.keepPackedVariables = false; // nothing packs here, so nothing is given back
  Session s = loaded(p.b, options);
  ok(s.setVariable("w", floats({0, 0, 0, 0})));
  check(s, 5, 1);
  check(s, 6, 1);
}

TEST_CASE("expressions are sums, quotients and products of the sizes", "[plansizes]") {
  plan::Plan p;
  for (const char *name : {"h", "w"}) p.add_size()->set_name(name);
  plan::Tensor t;
  for (int i = 0; i < 3; ++i) t.add_dim(-1), t.add_extent();
  auto factor = [&](int axis, int64_t constant, int64_t h, int64_t w, int64_t divisor) {
    auto *f = t.mutable_extent(axis)->add_factor();
    f->set_constant(constant), f->add_coefficient(h), f->add_coefficient(w), f->set_divisor(divisor);
  };
  factor(0, 1, 1, 0, 2);
  factor(1, 0, 1, 0, 0), factor(1, -1, 0, 2, 1);
  factor(2, 0, 1, 1, 1);
  CHECK(sizeText(p, t) == "(h+1)/2,h*(2*w-1),h+w");
  CHECK(dimsAt(t, {8, 5}) == std::vector<int64_t>{4, 72, 13});
}

TEST_CASE("sizes that contradict themselves are refused", "[plansizes]") {
  CHECK(errorOf([](SizedPlan *) {}).isOk());
  CHECK_THAT(reason([](SizedPlan *p) { p->b.plan.mutable_size(0)->set_min(0); }), Contains("size n goes from 0 to 64"));
  CHECK_THAT(reason([](SizedPlan *p) { p->b.plan.mutable_size(0)->set_max(-5); }), Contains("from 1 to -5"));
  CHECK_THAT(reason([](SizedPlan *p) { p->size("n", 1, 2); }), Contains("two sizes named 'n'"));
  CHECK_THAT(reason([](SizedPlan *p) { p->size("", 1, 2); }), Contains("without a name"));
  CHECK_THAT(reason([](SizedPlan *p) { p->size("m\x1b[2J", 1, 2); }), Contains("control characters"));
  CHECK_THAT(reason([](SizedPlan *p) { p->size("m", 1, 2); }), Contains("no input gives size m"));
  CHECK_THAT(reason([](SizedPlan *p) {
               for (int i = 0; i < 100; ++i) p->size("m" + std::to_string(i), 1, 2);
             }),
             Contains("101 sizes; the limit is 64"));
  CHECK(errorOf([](SizedPlan *p) { p->b.plan.clear_size(); }).id() == "OPC0812"); // bounds alone
  CHECK_THAT(reason([](SizedPlan *p) {
               p->b.plan.clear_size();
               for (plan::Tensor &t : *p->b.plan.mutable_tensor())
                 if (t.dim(0) == -1) t.set_dim(0, 64);
             }),
             Contains("depends on sizes, and the plan has none"));
  CHECK_THAT(reason([](SizedPlan *p) { p->b.stream(); }), Contains("several streams"));
  CHECK_THAT(reason([](SizedPlan *p) { p->b.plan.set_micro_batches(2); }), Contains("micro-batches"));
  CHECK_THAT(reason([](SizedPlan *p) { p->b.plan.add_placement(); }), Contains("several ranks"));
  CHECK_THAT(reason([](SizedPlan *p) { p->b.plan.mutable_task(0)->mutable_boxing(); }), Contains("task first"));
  CHECK_THAT(reason([](SizedPlan *p) { *p->b.plan.add_part() = SizedPlan().b.plan; }), Contains("several ranks"));
}

TEST_CASE("expressions that leave their bounds are refused", "[plansizes]") {
  constexpr int64_t kMost = INT64_MAX;
  const auto factor = [](SizedPlan *p) { return p->factor(p->middle); };
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_coefficient(0, 2); }),
             Contains("dimension 0 of tensor middle is 128 at the largest sizes, and its bound is 64"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_constant(-1); }), Contains("is 63 at the largest"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_coefficient(0, -1), factor(p)->set_constant(128); }),
             Contains("shrinks as a size grows"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_coefficient(0, kMost); }), Contains("too large"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_constant(kMost); }), Contains("too large"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_constant(INT64_MIN); }), Contains("below zero"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_divisor(-1); }), Contains("divisor -1"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->add_coefficient(1); }), Contains("depends on size 1 of 1"));
  CHECK_THAT(reason([&](SizedPlan *p) { factor(p)->set_coefficient(0, 2), factor(p)->set_constant(-64); }),
             Contains("is below zero or too large at the smallest sizes"));
  CHECK_THAT(reason([&](SizedPlan *p) {
               for (int i = 0; i < 17; ++i) p->tensor(p->middle)->mutable_extent(0)->add_factor()->set_constant(1);
             }),
             Contains("18 factors"));
  // 2^21 to the third: each factor fits, their product does not.
  CHECK_THAT(reason([&](SizedPlan *p) {
               for (int i = 0; i < 3; ++i)
                 p->tensor(p->middle)->mutable_extent(0)->add_factor()->set_constant(int64_t{1} << 21);
             }),
             Contains("too large"));
}

TEST_CASE("expressions stand where dimensions are open, and nowhere else", "[plansizes]") {
  CHECK_THAT(reason([](SizedPlan *p) { p->tensor(p->middle)->mutable_extent(0)->clear_factor(); }),
             Contains("has no expression"));
  CHECK_THAT(reason([](SizedPlan *p) { p->tensor(p->middle)->set_dim(0, 64); }),
             Contains("is known and has an expression"));
  CHECK_THAT(reason([](SizedPlan *p) { p->tensor(p->middle)->mutable_extent()->RemoveLast(); }),
             Contains("has 2 dimensions, 2 bounds and 1 expressions"));
  CHECK_THAT(reason([](SizedPlan *p) { p->tensor(p->middle)->clear_bound(); }), Contains("0 bounds"));
  CHECK_THAT(reason([](SizedPlan *p) { p->factor(p->x)->set_constant(1), p->tensor(p->x)->set_bound(0, 65); }),
             Contains("dimension 0 of input 'x' is no size by itself"));
  CHECK_THAT(reason([](SizedPlan *p) {
               p->size("m", 1, 4);
               p->open(p->w, 0, 1);
               const uint32_t t = p->b.input("t", Shape{4});
               p->open(t, 0, 1);
             }),
             Contains("variable 'w' depends on the sizes"));
}

TEST_CASE("a graph for other sizes is checked as every plan is", "[plansizes]") {
  // What the op gives is not what the plan says, but at the largest size.
  SizedPlan p;
  p.tensor(p.middle)->set_dim(0, 64);
  p.tensor(p.middle)->mutable_extent(0)->clear_factor();
  Session s = loaded(p.b);
  ok(s.setVariable("w", floats({0, 0, 0, 0})));
  check(s, 64, 0);
  ok(s.feed("x", floats(iota(7, 0), Shape{7, 4})));
  Status bad = s.run();
  CHECK(bad.id() == "OPC0815");
  CHECK_THAT(bad.message() + bad.context(), Contains("n = 7"));
  check(s, 64, 5); // and the session stays as it was
}
