// Regions that read through ops that move elements: maps that are refused, elements of every range, damaged plans.
// SPDX-License-Identifier: Apache-2.0
#include "MovedAccess.h"
#include "PlanBuilder.h"
#include "PlanFile.h"
#include "Session.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

using namespace opc;
using namespace opc::test;
using user_op::MovedBox;
using user_op::MoveMap;

namespace {

user_op::TensorDesc desc(const Shape &shape, DataType type = kFloat) { return {shape, type}; }

/// Of a tensor {3, 4}: its transpose.
MoveMap transposed() { return {{{0, {0, 0}, {4, 3}, {{1, 0, 1}, {0, 0, 1}}}}}; }

bool isSound(const std::function<void(MoveMap *)> &damage) {
  MoveMap map = transposed();
  damage(&map);
  return makeSound(&map, {desc({3, 4})}, desc({4, 3}));
}

} // namespace

TEST_CASE("a map that reads outside of its inputs is no map", "[region]") {
  CHECK(isSound([](MoveMap *) {}));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes.clear(); }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].input = 1; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].size[0] = 5; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].begin[0] = -1; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].begin[1] = 1; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].reads.pop_back(); }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].reads[0].axis = 2; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].reads[0].begin = 1; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].reads[0].step = 2; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].reads[1].step = INT64_MAX; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes[0].reads[1] = {-1, 4, 0}; }));
  CHECK_FALSE(isSound([](MoveMap *m) { m->boxes.push_back(m->boxes[0]); })); // two origins
  MoveMap map = transposed();
  CHECK_FALSE(makeSound(&map, {desc({3, 4}, kDouble)}, desc({4, 3})));
}

TEST_CASE("moved elements are found for every range of the loop", "[region]") {
  // Rows 1 and 2 of {4, 5}: of a tensor backwards in columns 0 to 2, of another's column in 3; elsewhere 7777.
  std::vector<uint16_t> a(40), b(9);
  std::iota(a.begin(), a.end(), uint16_t{100});
  std::iota(b.begin(), b.end(), uint16_t{500});
  const std::vector<MovedSource> sources = {{1, {1, 0}, {2, 3}, 30, {4, -2}}, {0, {1, 3}, {2, 1}, -2, {3, 0}}};
  const char *inputs[] = {reinterpret_cast<const char *>(b.data()), reinterpret_cast<const char *>(a.data())};
  const MovedAccess access({4, 5}, sources, 7777, sizeof(uint16_t));
  std::vector<uint16_t> want;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t k = 0; k < 5; ++k) {
      const bool isRow = i == 1 || i == 2;
      want.push_back(isRow && k < 3    ? a[static_cast<size_t>(30 + 4 * i - 2 * k)]
                     : isRow && k == 3 ? b[static_cast<size_t>(3 * i - 2)]
                                       : uint16_t{7777});
    }
  for (int64_t begin = 0; begin < 20; ++begin)
    for (int64_t n = 1; begin + n <= 20; ++n) {
      std::vector<uint16_t> buffer(static_cast<size_t>(n) + 1, 9999);
      const auto *found =
          static_cast<const uint16_t *>(access.elements(inputs, begin, n, reinterpret_cast<char *>(buffer.data())));
      REQUIRE(std::equal(found, found + n, want.begin() + begin));
      REQUIRE(buffer.back() == 9999);
    }
}

TEST_CASE("columns that become rows are found for every range of the loop", "[region]") {
  // {2, 9, 6} of {2, 6, 9}: more rows and columns than one block of them, and some left over.
  std::vector<uint32_t> data(108);
  std::iota(data.begin(), data.end(), 1u);
  std::vector<uint32_t> want;
  for (size_t a = 0; a < 2; ++a)
    for (size_t r = 0; r < 9; ++r)
      for (size_t i = 0; i < 6; ++i) want.push_back(data[a * 54 + i * 9 + r]);
  const char *inputs[] = {reinterpret_cast<const char *>(data.data())};
  const MovedAccess access({2, 9, 6}, {{0, {0, 0, 0}, {2, 9, 6}, 0, {54, 1, 9}}}, 0, sizeof(uint32_t));
  for (int64_t begin = 0; begin < 108; ++begin)
    for (int64_t n = 1; begin + n <= 108; ++n) {
      std::vector<uint32_t> buffer(static_cast<size_t>(n) + 1, 9999);
      const auto *found =
          static_cast<const uint32_t *>(access.elements(inputs, begin, n, reinterpret_cast<char *>(buffer.data())));
      REQUIRE(std::equal(found, found + n, want.begin() + begin));
      REQUIRE(buffer.back() == 9999);
    }
}

namespace {

/// y = relu(transpose(x)) of {3, 4}; the transpose is inside.
struct MovedPlan {
  PlanBuilder b;
  uint32_t x, turned, y;
  plan::Task *region;

  MovedPlan() {
    x = b.input("x", Shape{3, 4}), turned = b.tensor("turned", Shape{4, 3}), y = b.tensor("y", Shape{4, 3});
    inner(turned)->clear_register_();
    region = b.task("all", "opc.fused", {{"in", {x}}}, {{"out", {y}}});
    region->set_region(true);
    PlanBuilder parts;
    plan::Task *turn = parts.task("turn", "transpose", {{"input", {x}}}, {{"output", {turned}}});
    auto *perm = turn->add_attr();
    perm->set_name("perm");
    perm->mutable_value()->mutable_at_list_int32()->add_val(1);
    perm->mutable_value()->mutable_at_list_int32()->add_val(0);
    parts.task("relu", "relu", {{"x", {turned}}}, {{"y", {y}}});
    for (const plan::Task &t : parts.plan.task()) {
      *region->add_body() = t;
      region->mutable_body(region->body_size() - 1)->clear_stream();
    }
    b.output("y", y);
  }
  plan::Tensor *inner(uint32_t tensor) { return b.plan.mutable_tensor(static_cast<int>(tensor)); }
};

} // namespace

TEST_CASE("a region reads a transposed tensor where it lies", "[region]") {
  MovedPlan p;
  Result<Session> s = Session::load(encodePlan(p.b.plan), registry());
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  CHECK(s->tasks().size() == 1);
  Result<HostTensor> x = HostTensor::create(kFloat, Shape{3, 4});
  for (int i = 0; i < 12; ++i) x->as<float>()[i] = static_cast<float>(i - 5);
  REQUIRE(s->feed("x", std::move(*x)).isOk());
  REQUIRE(s->run(1).isOk());
  const auto y = s->fetch("y");
  REQUIRE(y.isOk());
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 3; ++k) CHECK(y->as<float>()[i * 3 + k] == std::max(0.0f, static_cast<float>(k * 4 + i - 5)));
}

TEST_CASE("a region that moves elements and contradicts itself is refused", "[region]") {
  const auto error = [](const std::function<void(MovedPlan *)> &damage) {
    MovedPlan p;
    damage(&p);
    const Status s = Session::load(encodePlan(p.b.plan), registry()).status();
    return s.id() + " " + s.message();
  };
  using Catch::Contains;
  CHECK_THAT(error([](MovedPlan *p) { p->inner(p->turned)->set_dim(0, 5); }), Contains("OPC0815"));
  CHECK_THAT(error([](MovedPlan *p) { // in both orders
               p->inner(p->turned)->set_register_(p->inner(p->y)->register_());
               p->region->mutable_output(0)->add_tensor(p->turned);
             }),
             Contains("OPC0816") && Contains("nothing in the loop computes"));
  CHECK_THAT(error([](MovedPlan *p) { // the relu before the transpose, and both are results
               p->region->mutable_body(1)->mutable_input(0)->set_tensor(0, p->x);
               p->region->mutable_body(0)->mutable_input(0)->set_tensor(0, p->y);
             }),
             Contains("OPC08"));
  CHECK_THAT(error([](MovedPlan *p) { // nothing computes
               p->region->mutable_body()->RemoveLast();
               p->inner(p->turned)->set_register_(p->inner(p->y)->register_());
               p->region->mutable_output(0)->set_tensor(0, p->turned);
               p->b.plan.mutable_interface()->mutable_output(0)->set_tensor(p->turned);
             }),
             Contains("OPC08"));
  CHECK_THAT(error([](MovedPlan *p) { // where the input lies, which is read in another order
               p->inner(p->y)->set_register_(p->inner(p->x)->register_());
             }),
             Contains("OPC08"));
  CHECK_THAT(error([](MovedPlan *p) {
               p->region->mutable_body(0)->mutable_attr(0)->mutable_value()->mutable_at_list_int32()->set_val(0, 9);
             }),
             Contains("OPC02"));
}
