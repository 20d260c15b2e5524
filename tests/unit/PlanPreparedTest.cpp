// Prepared tensors of plans: they are made once, before the first step, and which plans with them are refused.
// SPDX-License-Identifier: Apache-2.0
#include "PlanBuilder.h"
#include "PlanFile.h"
#include "Session.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>

using namespace opc;
using namespace opc::test;

namespace {

constexpr int64_t kSize = 32 << 10; // 128 KiB of f32: more than what is not worth being given back

/// p = (w + 1) * (w + 1), once; y = x + p + 10, and z = x + w where that is asked for.
struct PreparedPlan {
  PlanBuilder b;
  uint32_t x, w, q, p, s, y;
  explicit PreparedPlan(bool readsWeight = true) {
    const Shape shape{kSize};
    x = b.input("x", shape), w = b.variable("w", shape);
    q = b.tensor("q", shape, kFloat, plan::Register::PREPARED);
    p = b.tensor("p", shape, kFloat, plan::Register::PREPARED);
    s = b.tensor("s", shape), y = b.tensor("y", shape);
    b.add("first", w, q, 1);
    b.task("square", "broadcast_mul", {{"x", {q}}, {"y", {q}}}, {{"z", {p}}});
    b.task("sum", "broadcast_add", {{"x", {x}}, {"y", {p}}}, {{"z", {s}}});
    b.add("last", s, y, 10);
    b.output("y", y);
    if (!readsWeight) return;
    const uint32_t z = b.tensor("z", shape);
    b.task("beside", "broadcast_add", {{"x", {x}}, {"y", {w}}}, {{"z", {z}}});
    b.output("z", z);
  }
  uint32_t reg(uint32_t tensor) const { return b.plan.tensor(static_cast<int>(tensor)).register_(); }
  plan::Register *registerOf(uint32_t tensor) { return b.plan.mutable_register_(static_cast<int>(reg(tensor))); }
};

HostTensor filled(float value) {
  Result<HostTensor> t = HostTensor::create(kFloat, Shape{kSize});
  std::fill_n(t->as<float>(), kSize, value);
  return std::move(*t);
}

Result<Session> load(const PlanBuilder &b, const SessionOptions &options = {}) {
  return Session::load(encodePlan(b.plan), registry(), options);
}

/// What y is after a run; its elements are equal.
float resultOf(Session *s, const char *name = "y") {
  const Status run = s->run(1);
  INFO(run.toString());
  REQUIRE(run.isOk());
  const Result<HostTensor> y = s->fetch(name);
  INFO(y.status().toString());
  REQUIRE(y.isOk());
  const float *values = y->as<float>();
  CHECK(std::all_of(values, values + kSize, [&](float v) { return v == values[0]; }));
  return values[kSize - 1];
}

Status errorOf(const std::function<void(PreparedPlan *)> &damage) {
  PreparedPlan p;
  damage(&p);
  return load(p.b).status();
}

/// Counts what a run shows.
struct Counter final : RunObserver {
  explicit Counter(bool all = false) : isOfAll(all) {}
  bool wantsPrepared() const override { return isOfAll; }
  Status before(const ObservedTask &, int64_t, TaskData &) override { return Status::ok(); }
  Status after(const ObservedTask &task, int64_t, TaskData &) override {
    names += task.name + " ";
    return Status::ok();
  }
  std::string names;
  bool isOfAll;
};

} // namespace

TEST_CASE("a prepared tensor follows its variable", "[planprepared]") {
  PreparedPlan p;
  Result<Session> s = load(p.b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  REQUIRE(s->feed("x", filled(5)).isOk());
  REQUIRE(s->setVariable("w", filled(2)).isOk());
  CHECK(resultOf(&*s) == 24); // 5 + 9 + 10
  CHECK(resultOf(&*s, "z") == 7);
  REQUIRE(s->feed("x", filled(6)).isOk());
  CHECK(resultOf(&*s) == 25);
  REQUIRE(s->setVariable("w", filled(3)).isOk());
  CHECK(resultOf(&*s) == 32); // 6 + 16 + 10
  CHECK(resultOf(&*s, "z") == 9);
}

TEST_CASE("a first run that fails half way leaves nothing that is of before", "[planprepared]") {
  // p = (w + 1)^2 is prepared, then rows of `table` by `index`, which names one that is not there; y = x + p + rows.
  PreparedPlan p(false);
  const uint32_t table = p.b.variable("table", Shape{2, kSize}), index = p.b.variable("index", Shape{1}, kInt32);
  const uint32_t rows = p.b.tensor("rows", Shape{1, kSize}, kFloat, plan::Register::PREPARED);
  const uint32_t z = p.b.tensor("z", Shape{1, kSize});
  plan::Task *gather = p.b.task("rows", "gather", {{"in", {table}}, {"indices", {index}}}, {{"out", {rows}}});
  plan::Attribute *axis = gather->add_attr();
  axis->set_name("axis");
  axis->mutable_value()->set_at_int64(0);
  p.b.task("all", "broadcast_add", {{"x", {p.y}}, {"y", {rows}}}, {{"z", {z}}});
  p.b.output("z", z);
  Result<Session> s = load(p.b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  const auto set = [&](float w, int32_t at) {
    Result<HostTensor> values = HostTensor::create(kFloat, Shape{2, kSize}),
                       place = HostTensor::create(kInt32, Shape{1});
    std::fill_n(values->as<float>(), 2 * kSize, 100.0f);
    *place->as<int32_t>() = at;
    REQUIRE(s->setVariable("w", filled(w)).isOk());
    REQUIRE(s->setVariable("table", *values).isOk());
    REQUIRE(s->setVariable("index", *place).isOk());
  };
  REQUIRE(s->feed("x", filled(5)).isOk());
  for (const int32_t wrong : {7, 8}) {
    set(static_cast<float>(wrong), wrong);
    const Status failed = s->run(1);
    CHECK(failed.id() == "OPC0601");
    CHECK_THAT(failed.message(), Catch::Contains("gather: indices"));
  }
  set(2, 1);
  CHECK(resultOf(&*s, "z") == 124); // 5 + 9 + 10 + 100
  set(3, 9);
  CHECK(s->run(1).id() == "OPC0601");
  set(4, 0);
  CHECK(resultOf(&*s, "z") == 140);
}

TEST_CASE("what is prepared is no task of a step", "[planprepared]") {
  PreparedPlan p(false);
  Result<Session> s = load(p.b);
  REQUIRE(s.isOk());
  Counter counter;
  REQUIRE(s->feed("x", filled(1)).isOk());
  REQUIRE(s->setVariable("w", filled(0)).isOk());
  s->observe(&counter);
  CHECK(resultOf(&*s) == 12);
  CHECK(resultOf(&*s) == 12);
  CHECK(counter.names == "sum last sum last ");
  CHECK(s->stats().tasks == 4);
  CHECK(s->stats().prepared == 2);
  // Who wants to see them does so once, and when they have run again.
  Counter all(true);
  s->observe(&all);
  CHECK(resultOf(&*s) == 12);
  CHECK(resultOf(&*s) == 12);
  REQUIRE(s->setVariable("w", filled(1)).isOk());
  CHECK(resultOf(&*s) == 15);
  CHECK(all.names == "first square sum last sum last first square sum last ");
}

TEST_CASE("what only prepared tensors are made of is given back", "[planprepared]") {
  SessionOptions options;
  options.keepPackedVariables = false;
  for (const bool readsWeight : {true, false}) {
    PreparedPlan p(readsWeight);
    Result<Session> s = load(p.b, options);
    REQUIRE(s.isOk());
    REQUIRE(s->feed("x", filled(5)).isOk());
    REQUIRE(s->setVariable("w", filled(2)).isOk());
    CHECK(resultOf(&*s) == 24);
    CHECK(resultOf(&*s) == 24);
    const Status again = s->setVariable("w", filled(3));
    INFO(again.toString());
    // The first one is given back in either plan: q, when its square is there.
    CHECK(again.id() == "OPC0617");
    CHECK(s->variable("w").isOk() == readsWeight);
  }
}

TEST_CASE("plans with prepared tensors have a version of their own", "[planprepared]") {
  PreparedPlan p;
  std::string bytes = encodePlan(p.b.plan);
  CHECK(bytes[8] == 7);
  bytes[8] = 6;
  plan::Plan decoded;
  const Status s = decodePlan(bytes, &decoded);
  CHECK(s.id() == "OPC0804");
  CHECK_THAT(s.message(), Catch::Contains("prepared tensors, which came with version 7"));
}

TEST_CASE("prepared tensors that would not be the same in all steps are refused", "[planprepared]") {
  const auto reason = [](const std::function<void(PreparedPlan *)> &damage, const char *id = "OPC0816") {
    const Status s = errorOf(damage);
    CHECK(s.id() == id);
    return s.message();
  };
  using Catch::Contains;
  CHECK_THAT(
      reason([](PreparedPlan *p) { p->registerOf(p->s)->set_kind(plan::Register::PREPARED); }),
      Contains("it makes the prepared tensor 's', and reads tensor 'x/out', which is not the same in all steps"));
  CHECK_THAT(reason([](PreparedPlan *p) { p->registerOf(p->q)->set_kind(plan::Register::ACTIVATION); }),
             Contains("reads tensor 'q', which is not the same in all steps"));
  CHECK_THAT(reason([](PreparedPlan *p) {
               p->b.task("update", "runtime_test_update", {{"model", {p->w}}, {"delta", {p->y}}}, {});
             }),
             Contains("reads tensor 'w/out', which is not the same in all steps"));
  CHECK_THAT(reason([](PreparedPlan *p) { p->b.plan.mutable_task(1)->set_stride(2); }), Contains("belongs to a step"));
  CHECK_THAT(reason([](PreparedPlan *p) { p->b.plan.mutable_task(0)->set_lag(1); }), Contains("belongs to a step"));
  CHECK_THAT(reason([](PreparedPlan *p) {
               const uint32_t again = p->b.tensorIn(p->reg(p->p), "again", Shape{kSize});
               p->b.add("again", p->w, again, 1);
             }),
             Contains("another task writes its register"));
  CHECK_THAT(reason([](PreparedPlan *p) { // the square before what it is made of
               p->b.plan.mutable_stream(0)->mutable_task()->SwapElements(0, 1);
             }),
             Contains("before"));
  CHECK_THAT(reason([](PreparedPlan *p) { // makes of two streams could wait for each other
               p->b.plan.mutable_stream(0)->mutable_task()->Clear();
               for (uint32_t t : {0U, 2U, 3U, 4U}) p->b.plan.mutable_stream(0)->add_task(t);
               const uint32_t other = p->b.stream();
               p->b.plan.mutable_stream(static_cast<int>(other))->add_task(1);
               p->b.plan.mutable_task(1)->set_stream(other);
             }),
             Contains("reads tensor 'q', which another stream prepares"));
  CHECK_THAT(reason([](PreparedPlan *p) { p->registerOf(p->p)->set_credits(2); }, "OPC0813"),
             Contains("a prepared tensor, and has several slots"));
  CHECK_THAT(reason([](PreparedPlan *p) { p->registerOf(p->p)->set_offset(p->registerOf(p->y)->offset()); }, "OPC0817"),
             Contains("a prepared tensor"));
  CHECK_THAT(reason([](PreparedPlan *p) { // in no task
               const uint32_t made = p->b.tensor("made", Shape{kSize}, kFloat, plan::Register::PREPARED);
               p->b.output("made", made);
             }),
             Contains("which nothing makes"));
}

TEST_CASE("what draws numbers is not prepared", "[planprepared]") {
  const Status s = errorOf([](PreparedPlan *p) {
    const uint32_t r = p->b.tensor("r", Shape{kSize}, kFloat, plan::Register::PREPARED);
    p->b.task("draws", "bernoulli", {{"in", {p->w}}}, {{"out", {r}}});
  });
  INFO(s.toString());
  CHECK(s.id() == "OPC0816");
  CHECK_THAT(s.message(), Catch::Contains("may make another one in the next step"));
}
