// Bodies, devices and bounds in plans: what loads, and what is refused before anything runs.
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

/// y = (x + 1) + 10 in one task whose body has two, and z = y + 100 after it.
struct FusedPlan {
  PlanBuilder b;
  uint32_t x, middle, y, z;
  plan::Task *fused;

  FusedPlan() {
    x = b.input("x", Shape{4}), middle = b.tensor("middle", Shape{4}), y = b.tensor("y", Shape{4}),
    z = b.tensor("z", Shape{4});
    PlanBuilder parts; // tasks of another plan, to be moved into the body
    parts.add("first", x, middle, 1);
    parts.add("second", middle, y, 10);
    fused = b.task("fused", "opc.fused", {{"in", {x}}}, {{"out", {y}}});
    for (const plan::Task &t : parts.plan.task()) {
      *fused->add_body() = t;
      fused->mutable_body(fused->body_size() - 1)->clear_stream();
    }
    b.add("after", y, z, 100);
    b.output("z", z);
  }
};

HostTensor floats(const std::vector<float> &values) {
  Result<HostTensor> t = HostTensor::create(kFloat, Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t->as<float>());
  return std::move(*t);
}

Result<Session> load(const PlanBuilder &b) { return Session::load(encodePlan(b.plan), registry()); }

/// The error of a plan that was made wrong.
Status errorOf(const std::function<void(FusedPlan *)> &damage) {
  FusedPlan p;
  damage(&p);
  return load(p.b).status();
}

} // namespace

TEST_CASE("a task with a body is what its body is", "[planregions]") {
  FusedPlan p;
  p.b.plan.mutable_task(0)->set_device("cpu:0");
  Result<Session> s = load(p.b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  REQUIRE(s->feed("x", floats({0, 1, 2, 3})).isOk());
  REQUIRE(s->run(1).isOk());
  const auto z = s->fetch("z");
  REQUIRE(z.isOk());
  for (int i = 0; i < 4; ++i) CHECK(z->as<float>()[i] == static_cast<float>(i + 111));
}

TEST_CASE("a body that contradicts its task is refused", "[planregions]") {
  const auto reason = [](const std::function<void(FusedPlan *)> &damage) {
    const Status s = errorOf(damage);
    CHECK(s.id() == "OPC0816");
    return s.message();
  };
  using Catch::Contains;
  CHECK_THAT(reason([](FusedPlan *p) { p->fused->clear_body(); }), Contains("task fused has no body"));
  CHECK_THAT(reason([](FusedPlan *p) { p->fused->mutable_body()->RemoveLast(); }),
             Contains("does not make its output"));
  CHECK_THAT(reason([](FusedPlan *p) { p->fused->mutable_body()->SwapElements(0, 1); }),
             Contains("second in its body reads tensor"));
  CHECK_THAT(reason([](FusedPlan *p) { *p->fused->add_body() = p->fused->body(1); }), Contains("twice"));
  CHECK_THAT(reason([](FusedPlan *p) { p->fused->mutable_body(0)->set_stream(0); }), Contains("of its own"));
  CHECK_THAT(reason([](FusedPlan *p) { p->fused->mutable_body(0)->set_op_type("opc.fused"); }),
             Contains("is no single op"));
  CHECK_THAT(reason([](FusedPlan *p) { p->fused->set_op_type("relu"); }), Contains("of type relu has a body"));
  // What the ordinary rules say of the tasks in a body.
  CHECK(errorOf([](FusedPlan *p) { p->fused->mutable_body(0)->set_op_type("no_such_op"); }).id() == "OPC0201");
}

TEST_CASE("a task for a device that its stream is not on is refused", "[planregions]") {
  const Status s = errorOf([](FusedPlan *p) { p->b.plan.mutable_task(1)->set_device("cuda:1"); });
  CHECK(s.id() == "OPC0820");
  CHECK_THAT(s.message(), Catch::Contains("task after is on device 'cuda:1', and its stream is one of 'cpu'"));
}

TEST_CASE("bounds fit their tensors, and sizes that are not known are refused", "[planregions]") {
  const auto tensor = [](FusedPlan *p) { return p->b.plan.mutable_tensor(static_cast<int>(p->middle)); };
  FusedPlan known;
  tensor(&known)->add_bound(4);
  CHECK(load(known.b).isOk());
  Status s = errorOf([&](FusedPlan *p) { tensor(p)->add_bound(8); });
  CHECK(s.id() == "OPC0812");
  CHECK_THAT(s.message(), Catch::Contains("is 4 and has the bound 8"));
  s = errorOf([&](FusedPlan *p) { tensor(p)->add_bound(4), tensor(p)->add_bound(4); });
  CHECK_THAT(s.message(), Catch::Contains("has 1 dimensions and 2 bounds"));
  s = errorOf([&](FusedPlan *p) { tensor(p)->set_dim(0, -1), tensor(p)->add_bound(4); });
  CHECK(s.code() == StatusCode::kUnsupported);
  CHECK_THAT(s.message(), Catch::Contains("has sizes of which the plan knows the bound alone"));
}
