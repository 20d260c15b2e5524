// Plans whose tasks update many variables, and those in which such a task is wrong.
// SPDX-License-Identifier: Apache-2.0
#include "PlanBuilder.h"
#include "PlanFile.h"
#include "Session.h"

#include <catch2/catch.hpp>

#include <functional>

using namespace opc;
using namespace opc::test;

namespace {

/// a -= x and b -= y, in one task.
struct BatchPlan {
  PlanBuilder b;
  uint32_t x, y, first, second;
  plan::Task *batch;

  BatchPlan() {
    x = b.input("x", Shape{3}), y = b.input("y", Shape{5000});
    first = b.variable("a", Shape{3}), second = b.variable("b", Shape{5000});
    b.output("a", first);
    b.output("b", second);
    batch = b.task("all", "opc.fused", {{"in", {first, x, second, y}}}, {});
    update("ua", first, x);
    update("ub", second, y);
  }
  void update(const std::string &name, uint32_t model, uint32_t diff) {
    PlanBuilder parts;
    plan::Task *t = parts.task(name, "sgd_update", {{"model", {model}}, {"model_diff", {diff}}}, {});
    plan::Attribute *rate = t->add_attr();
    rate->set_name("learning_rate_val");
    rate->mutable_value()->set_at_float(1.0f);
    t->clear_stream();
    *batch->add_body() = *t;
  }
};

Result<Session> load(const PlanBuilder &b) { return Session::load(encodePlan(b.plan), registry()); }

HostTensor counting(int64_t n) {
  Result<HostTensor> t = HostTensor::create(kFloat, Shape{n});
  for (int64_t i = 0; i < n; ++i) t->as<float>()[i] = static_cast<float>(i + 1);
  return std::move(*t);
}

} // namespace

TEST_CASE("updates in one task are one task, and update what each of them does", "[batch]") {
  for (int threads : {1, 2, 5}) {
    BatchPlan p;
    SessionOptions options;
    options.threads = threads;
    Result<Session> s = Session::load(encodePlan(p.b.plan), registry(), options);
    INFO(s.status().toString());
    REQUIRE(s.isOk());
    REQUIRE(s->tasks().size() == 1);
    CHECK(s->tasks()[0].ops == std::vector<std::string>{"sgd_update", "sgd_update"});
    CHECK(s->tasks()[0].inputs[0].isMutable);
    CHECK_FALSE(s->tasks()[0].inputs[1].isMutable);
    REQUIRE(s->feed("x", counting(3)).isOk());
    REQUIRE(s->feed("y", counting(5000)).isOk());
    REQUIRE(s->setVariable("a", *HostTensor::create(kFloat, Shape{3})).isOk());
    REQUIRE(s->setVariable("b", *HostTensor::create(kFloat, Shape{5000})).isOk());
    REQUIRE(s->run(2).isOk());
    const auto a = s->fetch("a"), b = s->fetch("b");
    REQUIRE((a.isOk() && b.isOk()));
    for (int64_t i = 0; i < 3; ++i) CHECK(a->as<float>()[i] == static_cast<float>(-2 * (i + 1)));
    bool same = true;
    for (int64_t i = 0; i < 5000; ++i) same &= b->as<float>()[i] == static_cast<float>(-2 * (i + 1));
    CHECK(same);
  }
}

TEST_CASE("a task of updates that contradicts itself is refused", "[batch]") {
  const auto error = [](const std::function<void(BatchPlan *)> &damage) {
    BatchPlan p;
    damage(&p);
    const Status s = load(p.b).status();
    return s.id() + " " + s.message();
  };
  using Catch::Contains;
  CHECK_THAT(error([](BatchPlan *p) { p->update("again", p->first, p->x); }),
             Contains("OPC0816") && Contains("ua use a tensor that one of them writes"));
  CHECK_THAT(error([](BatchPlan *p) { p->update("from", p->second, p->second); }), Contains("OPC0816"));
  CHECK_THAT(error([](BatchPlan *p) {
               const uint32_t view = p->b.tensorIn(p->b.plan.tensor(static_cast<int>(p->first)).register_(), "v", {3});
               p->batch->mutable_input(0)->add_tensor(view);
               p->update("uv", p->x, view);
             }),
             Contains("OPC0816"));
  CHECK_THAT(error([](BatchPlan *p) { p->batch->mutable_body(1)->set_op_type("lamb_update"); }), Contains("OPC0"));
  CHECK_THAT(error([](BatchPlan *p) { p->batch->mutable_body(1)->set_op_type("assign"); }), Contains("OPC0"));
  CHECK_THAT(error([](BatchPlan *p) { p->batch->mutable_body(1)->set_workspace(1); }), Contains("OPC08"));
  CHECK_THAT(error([](BatchPlan *p) { p->batch->mutable_input(0)->add_tensor(p->x); }),
             Contains("lists input 'x/out' twice"));
  CHECK_THAT(error([](BatchPlan *p) { p->batch->mutable_body(0)->mutable_input(0)->set_tensor(0, p->second); }),
             Contains("OPC02"));
  CHECK_THAT(error([](BatchPlan *p) { p->batch->set_region(true); }), Contains("OPC0816") && Contains("makes nothing"));
  CHECK_THAT(error([](BatchPlan *p) { p->batch->add_attr()->set_name("x"); }), Contains("OPC08"));
  CHECK_THAT(error([](BatchPlan *p) {
               for (int i = 0; i < 1100; ++i) *p->batch->add_body() = p->batch->body(0);
             }),
             Contains("the limit is 1024"));
}
