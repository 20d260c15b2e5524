// OPC_POISON=1: what kernels read without right is NaN; what they read rightly stays what it was.
// SPDX-License-Identifier: Apache-2.0
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdlib>
#include <vector>

namespace {

using namespace opc;
using namespace opc::test;

/// The variable of the environment while a session is made.
class Environment {
public:
  explicit Environment(const char *value) { ::setenv("OPC_POISON", value, 1); }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;
  ~Environment() { ::unsetenv("OPC_POISON"); }
};

std::vector<float> run(const PlanBuilder &b, const char *poison, int64_t steps = 2) {
  const Environment environment(poison);
  Session session = loaded(b);
  ok(session.feed("x", floats({1, 2})));
  if (!b.plan.interface().variable().empty()) ok(session.setVariable("w", floats({0, 0})));
  ok(session.run(steps));
  const auto y = session.fetch("y");
  REQUIRE(y);
  return {y->as<float>()[0], y->as<float>()[1]};
}

} // namespace

TEST_CASE("a value that was not written, or is read after its end, is NaN", "[runtime][poison]") {
  // x + 1 -> a; a -> b; b + 1 -> c; c -> d, whose first element is a's.
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2});
  const uint32_t a = b.tensor("a/out_0", Shape{2}), copied = b.tensor("b/out_0", Shape{2}),
                 c = b.tensor("c/out_0", Shape{2}), d = b.tensor("d/out_0", Shape{2});
  b.add("a", x, a, 1);
  b.task("b", "runtime_test_faulty", {{"in", {a}}}, {{"out", {copied}}});
  b.add("c", copied, c, 1);
  plan::Attribute *recalls = b.task("d", "runtime_test_faulty", {{"in", {c}}}, {{"out", {d}}})->add_attr();
  recalls->set_name("recalls");
  recalls->mutable_value()->set_at_bool(true);
  b.output("y", d);
  CHECK(run(b, "0") == std::vector<float>{2, 0});
  const std::vector<float> found = run(b, "1");
  CHECK(std::isnan(found[0]));
  CHECK(std::isnan(found[1]));
}

TEST_CASE("what a task reads and writes rightly is left alone", "[runtime][poison]") {
  // In place, over an input that ends, through a view, with a workspace, and with an update of a variable.
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2}), w = b.variable("w", Shape{2});
  const uint32_t a = b.tensor("a/out_0", Shape{2});
  const uint32_t reg = b.plan.tensor(static_cast<int>(a)).register_();
  const uint32_t second = b.tensorIn(reg, "b/out_0", Shape{2}), view = b.tensorIn(reg, "v/out_0", Shape{2});
  b.add("a", x, a, 1);
  b.add("b", a, second, 10);
  b.task("v", "runtime_test_flat", {{"in", {second}}}, {{"out", {view}}});
  const uint32_t over = b.tensor("o/out_0", Shape{2}), y = b.tensor("y/out_0", Shape{2});
  b.plan.mutable_register_(static_cast<int>(b.plan.tensor(static_cast<int>(over)).register_()))
      ->set_offset(b.plan.register_(static_cast<int>(reg)).offset());
  b.add("o", view, over, 100);
  b.task("u", "runtime_test_update", {{"model", {w}}, {"delta", {over}}}, {});
  b.task("y", "runtime_test_packed", {{"in", {over}}, {"weight", {b.constant("two", {2, 2})}}}, {{"out", {y}}});
  b.output("y", y);
  for (const char *poison : {"0", "1"}) CHECK(run(b, poison) == std::vector<float>{224, 226});
}

TEST_CASE("OPC_POISON takes 0 and 1", "[runtime][poison]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2});
  const uint32_t y = b.tensor("y/out_0", Shape{2});
  b.add("y", x, y, 1);
  b.output("y", y);
  const Environment environment("yes");
  const auto session = Session::load(b.encode(), registry(), {});
  CHECK(session.status().id() == "OPC0001");
  CHECK(session.status().message() == "OPC_POISON is 'yes', and takes 0 or 1");
}
