// Simulated plans against times computed by hand: one rank, collectives, pipelines, meshes too large to have.
// SPDX-License-Identifier: Apache-2.0
#include "Simulation.h"
#include "PlanBuilder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

using namespace opc;
using namespace opc::simulate;
using opc::test::PlanBuilder;

namespace {

constexpr double kGood = 1e-9; // of a second

/// A cluster on which relu, tanh and sigmoid take as long as a test wants.
ClusterDescription cluster(int64_t devices, double bandwidth = 1e9, double latency = 0) {
  ClusterDescription c;
  c.name = "test";
  c.flops[kFloat] = 1e9;
  c.memoryBandwidth = 1e18;
  c.memoryBytes = 1 << 30;
  NetworkLevel level;
  level.name = "wire";
  level.devices = devices;
  level.link = {latency, bandwidth};
  c.levels.push_back(level);
  return c;
}

uint32_t placement(plan::Plan *plan, std::vector<int64_t> dims, int64_t first = 0) {
  plan::Placement *p = plan->add_placement();
  int64_t n = 1;
  for (int64_t d : dims) p->add_dim(d), n *= d;
  for (int64_t r = 0; r < n; ++r) p->add_rank(static_cast<uint32_t>(first + r));
  return static_cast<uint32_t>(plan->placement_size() - 1);
}
plan::Sharding sharding(uint32_t placement, std::vector<int> states, const Shape &shape) {
  plan::Sharding s;
  s.set_placement(placement);
  for (int x : states) s.add_state(x);
  for (int64_t d : shape) s.add_dim(d);
  return s;
}
void boxing(plan::Task *t, const char *kind, int dim, const plan::Sharding &from, const plan::Sharding &to) {
  t->mutable_boxing()->set_kind(kind);
  t->mutable_boxing()->set_mesh_dim(dim);
  t->mutable_boxing()->set_reduction("sum");
  *t->mutable_boxing()->add_from() = from;
  *t->mutable_boxing()->add_to() = to;
}
constexpr int kB = -1, kP = -2;

SimulationReport simulated(const plan::Plan &plan, const ClusterDescription &c, bool trace = false) {
  SimulationOptions options;
  options.trace = trace;
  const auto report = opc::simulate::simulate(plan, opc::test::registry(), c, options);
  INFO(report.status().toString());
  REQUIRE(report);
  return *report;
}
std::string failure(const plan::Plan &plan, const ClusterDescription &c) {
  const auto report = opc::simulate::simulate(plan, opc::test::registry(), c);
  return report ? "" : report.status().id();
}

/// Stage `stage` of a pipeline: forward is a relu, backward a tanh; activations and gradients travel on streams of
/// their own.
plan::Plan stagePart(int64_t stage, int64_t stages) {
  PlanBuilder b;
  const Shape shape{8};
  const auto keep = static_cast<uint32_t>(stages - stage);
  const auto exchange = [&](const std::string &name, uint32_t stream, int64_t from, int64_t to,
                            const opc::test::Args &in, const opc::test::Args &out) {
    boxing(b.task(name, "opc.boxing", in, out, stream), "exchange", -1,
           sharding(static_cast<uint32_t>(from), {kB}, shape), sharding(static_cast<uint32_t>(to), {kB}, shape));
  };
  const auto edge = [](const char *what, int64_t i) { return what + std::to_string(i); };
  const bool first = stage == 0, last = stage + 1 == stages;
  const uint32_t forwardIn =
      first ? b.input("x", shape) : b.tensor("f_in", shape, kFloat, plan::Register::ACTIVATION, keep + 1);
  const uint32_t forwardOut = b.tensor("f_out", shape, kFloat, plan::Register::ACTIVATION, last ? 1 : 2);
  const uint32_t backwardIn = last ? forwardOut : b.tensor("b_in", shape, kFloat, plan::Register::ACTIVATION, 2);
  const uint32_t backwardOut = b.tensor("b_out", shape, kFloat, plan::Register::ACTIVATION, 2);
  if (!first) {
    exchange(edge("activation", stage), b.stream(), stage - 1, stage, {}, {{"out", {forwardIn}}});
    exchange(edge("gradient", stage), b.stream(), stage, stage - 1, {{"in", {backwardOut}}}, {});
  }
  if (!last) {
    exchange(edge("activation", stage + 1), b.stream(), stage, stage + 1, {{"in", {forwardOut}}}, {});
    exchange(edge("gradient", stage + 1), b.stream(), stage + 1, stage, {}, {{"out", {backwardIn}}});
  }
  b.task("forward", "relu", {{"x", {forwardIn}}}, {{"y", {forwardOut}}});
  b.task("backward", "tanh", {{"x", {backwardIn}}}, {{"y", {backwardOut}}})->set_lag(keep - 1);
  return b.plan;
}
plan::Plan pipeline(int64_t stages, uint32_t microBatches) {
  plan::Plan plan;
  plan.set_micro_batches(microBatches);
  for (int64_t i = 0; i < stages; ++i) {
    placement(&plan, {1}, i);
    *plan.add_part() = stagePart(i, stages);
    plan.add_part_of_rank(static_cast<uint32_t>(i));
  }
  return plan;
}

/// Ranks of a mesh that compute, sum their result over each axis, and go on computing.
plan::Plan meshPlan(std::vector<int64_t> dims, const Shape &shape, bool overlap) {
  plan::Plan plan;
  const uint32_t mesh = placement(&plan, dims);
  PlanBuilder b;
  const uint32_t x = b.input("x", shape);
  uint32_t t = b.tensor("t", shape);
  b.task("make", "relu", {{"x", {x}}}, {{"y", {t}}});
  const uint32_t comm = overlap ? b.stream() : 0;
  const uint32_t other = b.tensor("other", shape);
  for (size_t d = 0; d < dims.size(); ++d) {
    const uint32_t sum = b.tensor("sum" + std::to_string(d), shape);
    std::vector<int> from(dims.size(), kP), to;
    for (size_t i = 0; i < d; ++i) from[i] = kB;
    to = from;
    to[d] = kB;
    boxing(b.task("reduce" + std::to_string(d), "opc.boxing", {{"in", {t}}}, {{"out", {sum}}}, comm), "all_reduce",
           static_cast<int>(d), sharding(mesh, from, shape), sharding(mesh, to, shape));
    t = sum;
  }
  b.task("meanwhile", "tanh", {{"x", {x}}}, {{"y", {other}}});
  const uint32_t out = b.tensor("out", shape);
  b.task("use", "sigmoid", {{"x", {t}}}, {{"y", {out}}});
  *plan.add_part() = b.plan;
  int64_t ranks = 1;
  for (int64_t d : dims) ranks *= d;
  for (int64_t r = 0; r < ranks; ++r) plan.add_part_of_rank(0);
  return plan;
}

} // namespace

TEST_CASE("one rank takes the sum of its tasks", "[simulate]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", {16, 16}), y = b.tensor("y", {16, 16}), z = b.tensor("z", {16, 16});
  b.task("a", "matmul", {{"a", {x}}, {"b", {x}}}, {{"out", {y}}});
  b.task("b", "relu", {{"x", {y}}}, {{"y", {z}}});
  b.task("v", "reshape", {{"in", {z}}},
         {{"out", {b.tensorIn(b.plan.tensor(static_cast<int>(z)).register_(), "v", {256})}}});
  ClusterDescription c = cluster(1);
  c.taskOverhead = 1e-6;
  const SimulationReport r = simulated(b.plan, c, true);
  CHECK(r.stepSeconds == Approx(2e-6 + (2.0 * 16 * 16 * 16 + 2 * 256) / 1e9).epsilon(1e-12)); // the view is free
  CHECK(r.computeSeconds == Approx(r.stepSeconds));
  CHECK(r.bubbleFraction < kGood);
  CHECK(r.peakMemoryBytes == b.plan.arena(0).bytes());
  CHECK(r.classes.size() == 1);
  CHECK(r.links.empty());
  REQUIRE(r.events.size() == 2);
  CHECK(r.eventNames[1] == "b");
  CHECK_THAT(traceJson(r), Catch::Contains("\"traceEvents\""));
}

TEST_CASE("an all-reduce costs its formula, or nothing when computation hides it", "[simulate]") {
  const Shape shape{1000};
  ClusterDescription c = cluster(4, 1e6, 1e-3);
  c.ops["relu"] = {1.0, 0};
  c.ops["tanh"] = {2.0, 0};
  c.ops["sigmoid"] = {3.0, 0};
  // Ring bytes, and latency for 2 (p - 1) messages or less.
  const double bytes = 2.0 * 3 / 4 * 4000;
  const SimulationReport inOrder = simulated(meshPlan({4}, shape, false), c);
  const double reduce = inOrder.stepSeconds - 6;
  CHECK(reduce >= bytes / 1e6);
  CHECK(reduce <= bytes / 1e6 + 6e-3 + kGood);
  CHECK(inOrder.exposedSeconds == Approx(reduce));
  CHECK(inOrder.computeSeconds == Approx(6));
  CHECK(inOrder.ranks == 4);
  CHECK(inOrder.classes.size() == 1);
  CHECK(inOrder.bytesSent == std::vector<uint64_t>(4, 6000));
  REQUIRE(inOrder.links.size() == 1);
  CHECK(inOrder.links[0].axis == "axis 0 of 4");
  CHECK(inOrder.links[0].level == "wire");
  CHECK(inOrder.links[0].bytes == 24000);
  const SimulationReport hidden = simulated(meshPlan({4}, shape, true), c);
  CHECK(hidden.stepSeconds == Approx(6));
  CHECK(hidden.communicationSeconds == Approx(reduce));
  CHECK(hidden.exposedSeconds < kGood);
  c.levels[0].link.bandwidth = 1e3; // 6 seconds, of which 2 are hidden
  const SimulationReport partly = simulated(meshPlan({4}, shape, true), c);
  CHECK(partly.exposedSeconds == Approx(partly.communicationSeconds - 2).epsilon(1e-6));
  CHECK(partly.stepSeconds == Approx(4 + partly.communicationSeconds).epsilon(1e-6));
}

TEST_CASE("uneven pieces are counted rank by rank", "[simulate]") {
  const SimulationReport r = simulated(meshPlan({3}, {10}, false), cluster(3));
  // All-reduce of 10 elements in pieces of 4, 3 and 3: everybody's pieces but the own, and the own to two others.
  CHECK(r.bytesSent == std::vector<uint64_t>{4 * (6 + 8), 4 * (7 + 6), 4 * (7 + 6)});
}

TEST_CASE("a mesh of 16384 devices is one class of ranks", "[simulate]") {
  ClusterDescription c = cluster(16384, 1e9, 1e-6);
  const SimulationReport r = simulated(meshPlan({128, 128}, {1 << 20}, false), c);
  CHECK(r.ranks == 16384);
  CHECK(r.classes.size() == 1);
  CHECK(r.classes[0].ranks == 16384);
  CHECK_FALSE(r.exactBytes());
  REQUIRE(r.links.size() == 2);
  const uint64_t bytes = uint64_t{2} * 127 * (uint64_t{1} << 22) / 128;
  CHECK(r.links[0].bytesOfRank == bytes);
  CHECK(r.links[1].bytes == bytes * 16384);
  CHECK(r.stepSeconds > 2 * static_cast<double>(bytes) / 1e9);
  CHECK(r.simulatedTasks == 5);
}

TEST_CASE("a pipeline with credits and lag is 1F1B: its makespan and its memory", "[simulate]") {
  // Narayanan et al., 2021: (m + p - 1)(tf + tb), and stage i holds min(m, p - i) micro-batches at most.
  for (const auto &[forward, backward] : {std::pair(1.0, 2.0), std::pair(1.0, 1.0), std::pair(3.0, 1.0)})
    for (int64_t p = 2; p <= 8; ++p)
      for (uint32_t m = 1; m <= 32; m += m < 9 ? 1 : 7) {
        ClusterDescription c = cluster(8, 1e18);
        c.ops["relu"] = {forward, 0};
        c.ops["tanh"] = {backward, 0};
        const SimulationReport r = simulated(pipeline(p, m), c, true);
        INFO("p " << p << ", m " << m << ", " << forward << ":" << backward);
        const double expected = static_cast<double>(m + p - 1) * (forward + backward);
        CHECK(r.stepSeconds == Approx(expected).epsilon(1e-9));
        CHECK(r.bubbleFraction == Approx(static_cast<double>(p - 1) / static_cast<double>(m + p - 1)).epsilon(1e-9));
        CHECK(r.classes.size() == static_cast<size_t>(p));
        for (uint32_t stage = 0; stage < p; ++stage) {
          // Micro-batches whose forward has begun and whose backward has not ended.
          std::vector<std::pair<double, int>> changes;
          for (size_t i = 0; i < r.events.size(); ++i)
            if (r.events[i].rankClass == stage && r.eventNames[i] == "forward")
              changes.push_back({r.events[i].begin, 1});
            else if (r.events[i].rankClass == stage && r.eventNames[i] == "backward")
              changes.push_back({r.events[i].end - 1e-6, -1});
          std::sort(changes.begin(), changes.end());
          int64_t held = 0, most = 0;
          for (const auto &[when, change] : changes) most = std::max(most, held += change);
          CHECK(most == std::min<int64_t>(m, p - stage));
        }
      }
}

TEST_CASE("plans that make no sense are refused", "[simulate]") {
  CHECK(failure(meshPlan({8}, {8}, false), cluster(4)) == "OPC0744");
  ClusterDescription axes = cluster(8);
  axes.axes = {"wire", "wire"};
  CHECK(failure(meshPlan({8}, {8}, false), axes) == "OPC0744");
  const auto broken = [](const std::function<void(plan::Plan *)> &edit) {
    plan::Plan plan = meshPlan({4}, {8}, true);
    edit(&plan);
    return failure(plan, cluster(4));
  };
  const auto task = [](plan::Plan *p, int i) { return p->mutable_part(0)->mutable_task(i); };
  CHECK(broken([](plan::Plan *) {}) == "");
  CHECK(broken([](plan::Plan *p) { p->set_part_of_rank(1, 9); }) == "OPC0745");
  CHECK(broken([](plan::Plan *p) { p->clear_part_of_rank(); }) == "OPC0745");
  CHECK(broken([](plan::Plan *p) { p->mutable_placement(0)->set_rank(0, 77); }) == "OPC0745");
  CHECK(broken([](plan::Plan *p) { p->mutable_placement(0)->set_dim(0, 3); }) == "OPC0745");
  CHECK(broken([](plan::Plan *p) { p->mutable_part(0)->mutable_tensor(0)->set_register_(99); }) == "OPC0745");
  CHECK(broken([](plan::Plan *p) { p->mutable_part(0)->mutable_stream(0)->add_task(99); }) == "OPC0745");
  CHECK(broken([&](plan::Plan *p) { task(p, 1)->mutable_boxing()->set_kind("teleport"); }) == "OPC0745");
  CHECK(broken([&](plan::Plan *p) { task(p, 1)->mutable_boxing()->set_mesh_dim(5); }) == "OPC0745");
  CHECK(broken([&](plan::Plan *p) { task(p, 1)->mutable_boxing()->mutable_from(0)->set_state(0, 7); }) == "OPC0745");
  CHECK(broken([&](plan::Plan *p) { task(p, 1)->mutable_boxing()->mutable_from(0)->set_placement(7); }) == "OPC0745");
  CHECK(broken([&](plan::Plan *p) { task(p, 1)->mutable_boxing()->clear_to(); }) == "OPC0745");
  CHECK(broken([&](plan::Plan *p) { task(p, 0)->mutable_input(0)->set_tensor(0, 99); }) == "OPC0745");
  CHECK(broken([&](plan::Plan *p) { task(p, 0)->set_op_type("no_such_op"); }) == "OPC0201");
  // Streams that wait for each other: "use" before "make" in its stream.
  CHECK(broken([](plan::Plan *p) {
          auto *order = p->mutable_part(0)->mutable_stream(0)->mutable_task();
          std::swap(*order->Mutable(0), *order->Mutable(order->size() - 1));
        }) == "OPC0746");
  // Two stages that exchange in opposite order on one stream.
  plan::Plan crossed = pipeline(2, 1);
  auto *second = crossed.mutable_part(1);
  second->mutable_stream(1)->add_task(second->stream(2).task(0));
  second->mutable_stream(2)->clear_task();
  auto *order = second->mutable_stream(1)->mutable_task();
  std::swap(*order->Mutable(0), *order->Mutable(1));
  CHECK(failure(crossed, cluster(2)) == "OPC0746");
  CHECK(checkFinishes(crossed, opc::test::registry()).id() == "OPC0746");
  CHECK(checkFinishes(crossed, opc::test::registry()).context().find("on rank") != std::string::npos);
}

TEST_CASE("whether a plan ends is known without prices and without all of its micro-batches", "[simulate]") {
  for (uint32_t m : {1u, 2u, 7u, 1024u})
    for (int64_t p : {2, 5}) CHECK(checkFinishes(pipeline(p, m), opc::test::registry()).isOk());
  CHECK(checkFinishes(meshPlan({4}, {8}, true), opc::test::registry()).isOk());
  // Two stages that exchange in opposite order, in the first of many micro-batches.
  plan::Plan crossed = pipeline(2, 1024);
  auto *second = crossed.mutable_part(1);
  second->mutable_stream(1)->add_task(second->stream(2).task(0));
  second->mutable_stream(2)->clear_task();
  auto *order = second->mutable_stream(1)->mutable_task();
  std::swap(*order->Mutable(0), *order->Mutable(1));
  CHECK(checkFinishes(crossed, opc::test::registry()).id() == "OPC0746");
}
