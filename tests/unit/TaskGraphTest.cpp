// Task graphs: streams, credits, strides, views, in-place; and plans that must be refused.
// SPDX-License-Identifier: Apache-2.0
#include "NoThreads.h"
#include "PlanDescription.h"
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <limits>

namespace {

using namespace opc;
using namespace opc::test;

float first(const Session &s, const std::string &output) { return values(s.fetch(output))[0]; }
Result<Session> load(const PlanBuilder &b) {
  SessionOptions options;
  options.threads = 2;
  return Session::load(b.encode(), registry(), options);
}
/// The code with which a plan is refused.
std::string refusal(const PlanBuilder &b) {
  Result<Session> s = load(b);
  return s ? "accepted" : s.status().id();
}

/// Stream 0: x -> a, and c -> y; stream 1: a -> b -> c.
PlanBuilder twoStreams(uint32_t credits) {
  PlanBuilder b;
  const uint32_t other = b.stream();
  const uint32_t x = b.input("x", Shape{16}), a = b.tensor("a", Shape{16}, kFloat, plan::Register::ACTIVATION, credits),
                 m = b.tensor("b", Shape{16}),
                 c = b.tensor("c", Shape{16}, kFloat, plan::Register::ACTIVATION, credits),
                 y = b.tensor("y", Shape{16});
  b.add("xa", x, a, 1);
  b.add("ab", a, m, 10, other);
  b.add("bc", m, c, 100, other);
  b.add("cy", c, y, 1000);
  b.output("y", y);
  b.output("a", a);
  return b;
}

TEST_CASE("two streams hand tensors over through counters and credits", "[taskgraph]") {
  for (uint32_t credits : {1u, 2u, 3u}) {
    Result<Session> s = load(twoStreams(credits));
    INFO(s.status().toString());
    REQUIRE(s.isOk());
    CHECK(s->stats().streams == 2);
    for (int round = 0; round < 20; ++round) {
      REQUIRE(s->feed("x", floats(std::vector<float>(16, static_cast<float>(round)))).isOk());
      REQUIRE(s->run(1 + round * 7).isOk());
      CHECK(first(*s, "y") == round + 1111);
      CHECK(first(*s, "a") == round + 1);
    }
  }
}

TEST_CASE("a variable updated in one stream turns with every step of the other", "[taskgraph]") {
  // Stream 0 counts in a variable; stream 1 reads each step's count through a register of two slots.
  PlanBuilder b;
  const uint32_t other = b.stream();
  const uint32_t d = b.input("d", Shape{4}), w = b.variable("w", Shape{4}), sum = b.variable("sum", Shape{4});
  for (int i = 0; i < 2; ++i)
    b.plan.mutable_interface()->mutable_variable(i)->mutable_initializer()->mutable_constant_conf()->set_value(0);
  const uint32_t a = b.tensor("a", Shape{4}, kFloat, plan::Register::ACTIVATION, 2);
  b.task("count", "runtime_test_update", {{"model", {w}}, {"delta", {d}}}, {});
  b.add("copy", w, a, 0);
  b.task("add", "runtime_test_update", {{"model", {sum}}, {"delta", {a}}}, {}, other);
  Result<Session> s = load(b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  REQUIRE(s->feed("d", floats({1, 1, 1, 1})).isOk());
  REQUIRE(s->run(1000).isOk());
  CHECK(s->variable("w")->as<float>()[0] == 1000);
  CHECK(s->variable("sum")->as<float>()[0] == 500500);
}

TEST_CASE("a variable begins with the value that the plan has", "[taskgraph]") {
  PlanBuilder b;
  const uint32_t w = b.variable("w", Shape{2}), y = b.tensor("y", Shape{2});
  b.add("wy", w, y, 1);
  b.output("y", y);
  auto *variable = b.plan.mutable_interface()->mutable_variable(0);
  variable->clear_initializer();
  const float value[2] = {3, -4};
  variable->set_data(std::string(reinterpret_cast<const char *>(value), sizeof value));
  SECTION("it is used, until another is given") {
    Result<Session> s = load(b);
    INFO(s.status().toString());
    REQUIRE(s.isOk());
    CHECK(s->interface().variables[0].hasValue);
    REQUIRE(s->run().isOk());
    CHECK(values(s->fetch("y")) == std::vector<float>{4, -3});
    REQUIRE(s->setVariable("w", floats({0, 0})).isOk());
    REQUIRE(s->run().isOk());
    CHECK(values(s->fetch("y")) == std::vector<float>{1, 1});
  }
  SECTION("its size is that of the variable") {
    for (const size_t size : {size_t{0}, size_t{7}, size_t{9}, size_t{1} << 20}) {
      variable->set_data(std::string(size, 'x'));
      CHECK(refusal(b) == "OPC0812");
    }
  }
}

TEST_CASE("a failure in one stream stops the others and the next run works", "[taskgraph]") {
  PlanBuilder b;
  const uint32_t other = b.stream();
  const uint32_t x = b.input("x", Shape{4}), a = b.tensor("a", Shape{4}), q = b.tensor("q", Shape{1}),
                 y = b.tensor("y", Shape{1});
  const uint32_t w = b.tensor("tmp", Shape{16}, kUInt8, plan::Register::WORKSPACE);
  b.add("xa", x, a, 1);
  b.task("squares", "runtime_test_sum_squares", {{"in", {a}}}, {{"out", {q}}}, other)->set_workspace(w + 1);
  b.add("qy", q, y, 0);
  b.output("y", y);
  Result<Session> s = load(b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  for (int round = 0; round < 30; ++round) {
    REQUIRE(s->feed("x", floats({-5, 0, 0, 0})).isOk());
    const Status failed = s->run(5);
    REQUIRE(failed.code() == StatusCode::kExecution);
    CHECK(failed.context().find("squares") != std::string::npos);
    REQUIRE(s->feed("x", floats({1, 0, 0, 0})).isOk());
    REQUIRE(s->run(5).isOk());
    CHECK(first(*s, "y") == 7);
  }
}

TEST_CASE("however many streams fail at once, the others stop", "[taskgraph]") {
  // What the first stream waits for in the end is made by one of those that fail meanwhile.
  constexpr int kFailing = 12, kOwn = 2000;
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{16384});
  uint32_t own = b.tensor("own", Shape{16384});
  const uint32_t place = b.plan.tensor(static_cast<int>(own)).register_();
  b.add("own", x, own, 1);
  for (int i = 0; i < kOwn; ++i) {
    const uint32_t next = b.tensorIn(place, "own" + std::to_string(i), Shape{16384});
    b.add("own" + std::to_string(i), own, next, 1);
    own = next;
  }
  std::vector<uint32_t> sums;
  for (int i = 0; i < kFailing; ++i) {
    const std::string name = "squares" + std::to_string(i);
    const uint32_t w = b.tensor("tmp" + name, Shape{4 * 16384}, kUInt8, plan::Register::WORKSPACE);
    sums.push_back(b.tensor(name, Shape{1}));
    b.task(name, "runtime_test_sum_squares", {{"in", {x}}}, {{"out", {sums.back()}}}, b.stream())->set_workspace(w + 1);
  }
  const uint32_t y = b.tensor("y", Shape{1});
  b.add("y", sums[0], y, 0);
  b.output("y", y);
  Result<Session> s = load(b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  std::vector<float> given(16384, 0);
  for (int round = 0; round < 3; ++round) {
    given[0] = -1;
    REQUIRE(s->feed("x", floats(given)).isOk());
    CHECK(s->run().code() == StatusCode::kExecution);
    given[0] = 3;
    REQUIRE(s->feed("x", floats(given)).isOk());
    REQUIRE(s->run().isOk());
    CHECK(first(*s, "y") == 9);
  }
}

TEST_CASE("strided tasks run at every n-th step", "[taskgraph]") {
  PlanBuilder b;
  const uint32_t d = b.input("d", Shape{1}), acc = b.variable("acc", Shape{1}), total = b.variable("total", Shape{1});
  for (int i = 0; i < 2; ++i)
    b.plan.mutable_interface()->mutable_variable(i)->mutable_initializer()->mutable_constant_conf()->set_value(0);
  const uint32_t y = b.tensor("y", Shape{1});
  b.task("acc", "runtime_test_update", {{"model", {acc}}, {"delta", {d}}}, {});
  b.task("total", "runtime_test_update", {{"model", {total}}, {"delta", {acc}}}, {})->set_stride(4);
  b.add("show", total, y, 0)->set_stride(4);
  b.output("y", y);
  Result<Session> s = load(b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  REQUIRE(s->feed("d", floats({1})).isOk());
  REQUIRE(s->run(8).isOk());
  CHECK(first(*s, "y") == 4 + 8);
  REQUIRE(s->run(1).isOk());
  CHECK(s->fetch("y").status().id() == "OPC0613");
}

TEST_CASE("a thread that the system refuses is an error, and the next run tries again", "[taskgraph]") {
  Result<Session> s = load(twoStreams(2));
  REQUIRE(s.isOk());
  REQUIRE(s->feed("x", floats(std::vector<float>(16, 5))).isOk());
  {
    const NoThreads none;
    for (int round = 0; round < 2; ++round) {
      const Status refused = s->run();
      CHECK(refused.id() == "OPC0614");
      CHECK(refused.code() == StatusCode::kExecution);
    }
  }
  REQUIRE(s->run(3).isOk());
  CHECK(first(*s, "y") == 5 + 1111);
}

TEST_CASE("a kernel that could not be made is made by the next run", "[taskgraph]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2}), w = b.variable("w", Shape{1}), y = b.tensor("y", Shape{2});
  b.task("scale", "runtime_test_packed", {{"in", {x}}, {"weight", {w}}}, {{"out", {y}}});
  b.output("y", y);
  Result<Session> s = load(b);
  REQUIRE(s.isOk());
  REQUIRE(s->feed("x", floats({1, 2})).isOk());
  REQUIRE(s->setVariable("w", floats({std::numeric_limits<float>::quiet_NaN()})).isOk());
  for (int round = 0; round < 2; ++round) {
    const Status failed = s->run();
    CHECK(failed.code() == StatusCode::kExecution);
    CHECK_THAT(failed.message(), Catch::Contains("the weight is no number"));
    CHECK_THAT(failed.context(), Catch::Contains("running op scale"));
  }
  REQUIRE(s->setVariable("w", floats({3})).isOk());
  REQUIRE(s->run().isOk());
  CHECK(values(s->fetch("y")) == std::vector<float>{3, 6});
}

TEST_CASE("views need no execution, in-place needs the kernel's offer", "[taskgraph]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2, 3});
  const uint32_t flatX = b.tensorIn(b.plan.tensor(static_cast<int>(x)).register_(), "fx", Shape{6});
  b.task("flat", "runtime_test_flat", {{"in", {x}}}, {{"out", {flatX}}});
  const uint32_t a = b.tensor("a", Shape{6});
  const uint32_t same = b.tensorIn(b.plan.tensor(static_cast<int>(a)).register_(), "a2", Shape{6}); // same register
  const uint32_t over = b.tensor("a3", Shape{6});                                                   // same memory
  b.plan.mutable_register_(b.plan.register__size() - 1)
      ->set_offset(b.plan.register_(static_cast<int>(b.plan.tensor(static_cast<int>(a)).register_())).offset());
  b.add("1", flatX, a, 1);
  b.add("2", a, same, 1);
  b.add("3", same, over, 1);
  b.output("y", over);
  Result<Session> s = load(b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  CHECK(s->stats().tasks == 4);
  CHECK(s->stats().views == 1);
  Result<HostTensor> in = HostTensor::create(kFloat, Shape{2, 3});
  REQUIRE(s->feed("x", *in).isOk());
  REQUIRE(s->run(2).isOk());
  CHECK(first(*s, "y") == 3);

  SECTION("an input read later blocks it") {
    const uint32_t z = b.tensor("z", Shape{6});
    b.add("late", a, z, 0);
    CHECK(refusal(b) == "OPC0816");
  }
  SECTION("a kernel without the offer blocks it") {
    PlanBuilder c;
    const uint32_t i = c.input("x", Shape{1}), w = c.tensor("tmp", Shape{4}, kUInt8, plan::Register::WORKSPACE);
    const uint32_t p = c.tensor("p", Shape{1});
    const uint32_t q = c.tensorIn(c.plan.tensor(static_cast<int>(p)).register_(), "q", Shape{1});
    c.add("make", i, p, 1);
    c.task("squares", "runtime_test_sum_squares", {{"in", {p}}}, {{"out", {q}}})->set_workspace(w + 1);
    CHECK(refusal(c) == "OPC0816");
  }
}

namespace {
/// c = (x + 1) + 1.
struct TwoAdds {
  PlanBuilder b;
  uint32_t x = b.input("x", Shape{4}), a = b.tensor("a", Shape{4}), c = b.tensor("c", Shape{4});
  TwoAdds() {
    b.add("first", x, a, 1);
    b.add("second", a, c, 1);
    b.output("y", c);
  }
};
} // namespace

TEST_CASE("plans that break a rule are refused, whatever their checksum says", "[taskgraph]") {
  TwoAdds two;
  PlanBuilder &b = two.b;
  plan::Plan &p = b.plan;
  const uint32_t a = two.a;
  REQUIRE(refusal(b) == "accepted");
  SECTION("references") {
    SECTION("arena") { p.mutable_register_(0)->set_arena(9); }
    SECTION("register") { p.mutable_tensor(0)->set_register_(99); }
    SECTION("tensor") { p.mutable_task(0)->mutable_input(0)->set_tensor(0, 77); }
    SECTION("output") { p.mutable_interface()->mutable_output(0)->set_tensor(77); }
    SECTION("workspace") { p.mutable_task(0)->set_workspace(77); }
    SECTION("task twice") { p.mutable_stream(0)->add_task(0); }
    SECTION("task in no stream") { p.mutable_stream(0)->mutable_task()->RemoveLast(); }
    SECTION("task index") { p.mutable_stream(0)->add_task(5); }
    SECTION("two inputs of one name") { *p.mutable_interface()->add_input() = p.interface().input(0); }
    SECTION("attribute twice") { *p.mutable_task(0)->add_attr() = p.task(0).attr(0); }
    SECTION("input in an activation") { p.mutable_interface()->mutable_input(0)->set_tensor(a); }
    CHECK(refusal(b) == "OPC0811");
  }
  SECTION("tensors") {
    SECTION("negative") { p.mutable_tensor(1)->set_dim(0, -4); }
    SECTION("rank") {
      for (int i = 0; i < 30; ++i) p.mutable_tensor(1)->add_dim(1);
    }
    SECTION("overflow") {
      for (int i = 0; i < 3; ++i) p.mutable_tensor(1)->add_dim(int64_t{1} << 40);
    }
    SECTION("type") { p.mutable_tensor(1)->set_data_type(graph::kOFRecord); }
    CHECK(refusal(b) == "OPC0812");
  }
  SECTION("registers") {
    SECTION("alignment") { p.mutable_register_(1)->set_offset(72); }
    SECTION("outside") { p.mutable_register_(1)->set_offset(uint64_t{1} << 40); }
    SECTION("overflow") { p.mutable_register_(1)->set_offset(UINT64_MAX - 63); }
    SECTION("credits") { p.mutable_register_(1)->set_credits(0); }
    SECTION("many credits") { p.mutable_register_(1)->set_credits(UINT32_MAX); }
    SECTION("input with slots") { p.mutable_register_(0)->set_credits(2); }
    CHECK(refusal(b) == "OPC0813");
  }
  SECTION("a tensor larger than its register") {
    p.mutable_tensor(1)->set_dim(0, 1000);
    CHECK(refusal(b) == "OPC0814");
  }
  SECTION("a shape that the op does not give") {
    p.mutable_tensor(1)->set_dim(0, 3);
    CHECK(refusal(b) == "OPC0815");
  }
}

TEST_CASE("plans whose tensors are not made, read or kept in order are refused", "[taskgraph]") {
  TwoAdds two;
  PlanBuilder &b = two.b;
  plan::Plan &p = b.plan;
  const uint32_t x = two.x, a = two.a, c = two.c;
  SECTION("flow") {
    SECTION("read before made") {
      p.mutable_stream(0)->set_task(0, 1);
      p.mutable_stream(0)->set_task(1, 0);
    }
    SECTION("never made") { p.mutable_task(1)->mutable_input(0)->set_tensor(0, b.tensor("ghost", Shape{4})); }
    SECTION("made twice") { p.mutable_task(1)->mutable_output(0)->set_tensor(0, a); }
    SECTION("an input made") { p.mutable_task(1)->mutable_output(0)->set_tensor(0, x); }
    SECTION("an output that nothing makes") {
      p.mutable_interface()->mutable_output(0)->set_tensor(b.tensor("ghost", Shape{4}));
    }
    SECTION("an output overwritten") {
      b.add("third", x, b.tensorIn(p.tensor(static_cast<int>(c)).register_(), "c2", Shape{4}), 1);
    }
    SECTION("strides that do not fit") { p.mutable_task(0)->set_stride(3); }
    CHECK(refusal(b) == "OPC0816");
  }
  SECTION("memory") {
    SECTION("an activation over an input") { p.mutable_register_(1)->set_offset(p.register_(0).offset()); }
    SECTION("an output over a live tensor") {
      const uint32_t z = b.tensor("z", Shape{4});
      b.add("third", a, z, 1);
      p.mutable_register_(2)->set_offset(p.register_(1).offset());
    }
    SECTION("two sources in one register") {
      auto *v = p.mutable_interface()->add_input();
      v->set_name("x2");
      v->set_tensor(x);
    }
    CHECK(refusal(b) == "OPC0817");
  }
  SECTION("in place through memory") { // a dies where c is made, and the kernel offers it: fine
    p.mutable_register_(2)->set_offset(p.register_(1).offset());
    CHECK(refusal(b) == "accepted");
  }
}

TEST_CASE("plans of other operators, kernels and devices are refused", "[taskgraph]") {
  TwoAdds two;
  PlanBuilder &b = two.b;
  plan::Plan &p = b.plan;
  SECTION("unknown op") {
    p.mutable_task(0)->set_op_type("runtime_test_ad");
    const Status s = load(b).status();
    CHECK(s.id() == "OPC0201");
    CHECK(s.help().find("runtime_test_add") != std::string::npos);
    CHECK(s.context().find("task 0, op first") != std::string::npos);
  }
  SECTION("unknown attribute") {
    p.mutable_task(0)->mutable_attr(0)->set_name("valu");
    CHECK(refusal(b) == "OPC0205");
  }
  SECTION("no kernel") {
    for (int i = 0; i < 3; ++i) p.mutable_tensor(i)->set_data_type(graph::kInt32);
    const Status s = load(b).status();
    CHECK(s.id() == "OPC0411");
    CHECK(s.code() == StatusCode::kUnsupported);
    CHECK(s.help().find("dtype of out_0 is i32") != std::string::npos);
  }
  SECTION("another device") {
    p.mutable_stream(0)->set_device("gpu:0");
    CHECK(load(b).status().code() == StatusCode::kUnsupported);
  }
  SECTION("workspace too small") {
    const uint32_t y = b.tensor("s", Shape{1});
    b.task("squares", "runtime_test_sum_squares", {{"in", {two.c}}}, {{"out", {y}}});
    CHECK(refusal(b) == "OPC0818");
  }
}

TEST_CASE("kernels follow no pointer into the memory of another device", "[taskgraph]") {
  // Two arenas, of the CPU and of a device, which is not opened: x -> a by a task of stream 0, and what lies where.
  const auto said = [](const char *stream, const char *op, bool inputIsOnCpu, bool outputIsOnCpu,
                       const char *third = "") {
    PlanBuilder b;
    b.plan.mutable_arena(0)->set_device("sim");
    b.plan.add_arena()->set_device("cpu");
    b.plan.mutable_arena(1)->set_bytes(4096);
    if (*third) b.plan.add_arena()->set_device(third);
    b.plan.mutable_stream(0)->set_device(stream);
    const uint32_t x = b.input("x", Shape{16}), a = b.tensor("a", Shape{16});
    if (inputIsOnCpu) b.plan.mutable_register_(0)->set_arena(1);
    if (outputIsOnCpu) b.plan.mutable_register_(1)->set_arena(1);
    b.task("t", op, {{"in", {x}}}, {{"out", {a}}});
    b.output("a", a);
    const Result<PlanDescription> d = describePlan(b.encode(), registry());
    return d ? std::string() : d.status().id() + ": " + d.status().message();
  };
  using Catch::Contains;
  CHECK_THAT(said("cpu", "copy", true, false),
             Contains("OPC0820: tensor 'a' lies on 'sim', and the task is for 'cpu'"));
  CHECK_THAT(said("cpu", "copy", false, true), Contains("OPC0820: tensor 'x/out' lies on 'sim'"));
  CHECK(said("cpu", "copy", true, true).empty());
  CHECK(said("sim", "copy", true, false).empty()); // a device's copies reach the CPU beside it
  CHECK(said("sim", "copy", false, true).empty());
  CHECK_THAT(said("sim", "flatten", true, false),
             Contains("OPC0820: tensor 'x/out' lies on 'cpu', and the task is for 'sim'"));
  CHECK_THAT(said("sim:1", "copy", false, false),
             Contains("OPC0820: stream 0 is for device 'sim:1', and the plan is for 'sim'"));
  CHECK_THAT(said("sim", "copy", false, false, "gpu"), Contains("OPC0820: an arena is for device 'gpu'"));
}

TEST_CASE("graphs of tasks have their memory on the CPU", "[taskgraph]") {
  // y is what one of two graphs has, which compute nothing: the task follows a pointer to it.
  const auto said = [](const char *device) {
    const auto branch = [&](float value) {
      PlanBuilder b;
      b.output("y", b.constant("value", {value, value}));
      b.plan.mutable_arena(0)->set_device(device);
      b.plan.clear_stream();
      return b.plan;
    };
    PlanBuilder b;
    const uint32_t c = b.input("c", Shape{1}, kBool), y = b.tensor("y", Shape{2});
    plan::Task *t = b.task("choose", "if", {{"cond", {c}}}, {{"out", {y}}});
    const auto attribute = [&](const char *name) {
      plan::Attribute *a = t->add_attr();
      a->set_name(name);
      return a->mutable_value();
    };
    attribute("then_graph")->set_at_string("");
    attribute("else_graph")->set_at_string("");
    attribute("dtypes")->mutable_at_list_data_type()->add_val(graph::kFloat);
    attribute("shapes")->mutable_at_list_shape()->add_val()->add_dim(2);
    *t->add_graph() = branch(1);
    *t->add_graph() = branch(2);
    b.output("y", y);
    const Result<PlanDescription> d = describePlan(b.encode(), registry());
    return d ? std::string() : d.status().id() + ": " + d.status().message();
  };
  CHECK(said("cpu").empty());
  CHECK_THAT(said("sim"), Catch::Contains("OPC0820: graphs of tasks run on the CPU, and one is for sim"));
}

TEST_CASE("streams that share memory or wait for each other are refused", "[taskgraph]") {
  SECTION("memory of two streams") {
    PlanBuilder b = twoStreams(1);
    b.plan.mutable_register_(2)->set_offset(b.plan.register_(4).offset());
    CHECK(refusal(b) == "OPC0817");
  }
  SECTION("deadlock") {
    PlanBuilder b;
    const uint32_t other = b.stream();
    const uint32_t x = b.input("x", Shape{4}), p = b.tensor("p", Shape{4}), q = b.tensor("q", Shape{4}),
                   r = b.tensor("r", Shape{4}), s = b.tensor("s", Shape{4});
    b.add("0a", s, p, 1);
    b.add("0b", x, q, 1);
    b.add("1a", q, r, 1, other);
    b.add("1b", r, s, 1, other);
    CHECK(refusal(b) == "OPC0819");
    std::swap(*b.plan.mutable_stream(0)->mutable_task()->Mutable(0),
              *b.plan.mutable_stream(0)->mutable_task()->Mutable(1));
    CHECK(refusal(b) == "accepted");
  }
  SECTION("a view of itself") {
    PlanBuilder b;
    const uint32_t r = b.reg("v", 16), a = b.tensorIn(r, "a", Shape{4}), c = b.tensorIn(r, "c", Shape{4});
    b.task("1", "runtime_test_flat", {{"in", {a}}}, {{"out", {c}}});
    b.task("2", "runtime_test_flat", {{"in", {c}}}, {{"out", {a}}});
    CHECK(refusal(b) == "OPC0816");
  }
}

} // namespace
