// Tasks that lag behind their stream, micro-batches, and two stages that form a pipeline.
// SPDX-License-Identifier: Apache-2.0
#include "JobBuilder.h"
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <numeric>

namespace {

using namespace opc;
using namespace opc::test;

/// The order in which one stream does its tasks: "f0 f1 b0".
class OrderOf final : public RunObserver {
public:
  explicit OrderOf(uint32_t stream) : stream_(stream) {}
  Status after(const ObservedTask &task, int64_t step, TaskData &) override {
    if (task.stream == stream_) order += (order.empty() ? "" : " ") + task.name + std::to_string(step);
    return Status::ok();
  }
  std::string order;

private:
  uint32_t stream_;
};

/// x -> f (no lag) -> b (lag), on one stream, in micro-batches.
PlanBuilder lagging(uint32_t lag, uint32_t credits, uint32_t microBatches) {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2});
  b.plan.mutable_register_(0)->set_credits(microBatches);
  b.plan.mutable_register_(0)->set_stride(64);
  b.plan.mutable_arena(0)->set_bytes(64 * microBatches);
  const uint32_t f = b.tensor("f", Shape{2}, kFloat, plan::Register::ACTIVATION, credits),
                 y = b.tensor("y", Shape{2}, kFloat, plan::Register::ACTIVATION, microBatches);
  b.add("f", x, f, 1);
  b.add("b", f, y, 10)->set_lag(lag);
  b.output("y", y);
  b.plan.set_micro_batches(microBatches);
  return b;
}
std::string refusal(const PlanBuilder &b) {
  Result<Session> s = Session::load(b.encode(), registry());
  return s ? "accepted" : s.status().id();
}

TEST_CASE("a task that lags does an earlier step, and every step in the end", "[pipeline]") {
  Result<Session> s = Session::load(lagging(2, 3, 4).encode(), registry());
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  CHECK(s->interface().inputs[0].desc.shape() == Shape{8});
  CHECK(s->interface().outputs[0].desc.shape() == Shape{8});
  for (int round = 0; round < 3; ++round) {
    OrderOf order(0);
    s->observe(&order);
    std::vector<float> x(8);
    std::iota(x.begin(), x.end(), static_cast<float>(100 * round));
    REQUIRE(s->feed("x", floats(x)).isOk());
    REQUIRE(s->run().isOk());
    for (float &v : x) v += 11;
    CHECK(values(s->fetch("y")) == x);
    CHECK(s->step() == round + 1);
    const auto n = [&](int k) { return std::to_string(4 * round + k); };
    CHECK(order.order ==
          "f" + n(0) + " f" + n(1) + " f" + n(2) + " b" + n(0) + " f" + n(3) + " b" + n(1) + " b" + n(2) + " b" + n(3));
    s->observe(nullptr);
  }
  REQUIRE(s->run(3).isOk());
  CHECK(s->stats().steps == 6);
}

TEST_CASE("an input in micro-batches is read back as it was fed", "[pipeline]") {
  Result<Session> s = Session::load(lagging(2, 3, 4).encode(), registry());
  REQUIRE(s.isOk());
  std::vector<float> x(8);
  std::iota(x.begin(), x.end(), 5.0f);
  REQUIRE(s->feed("x", floats(x)).isOk());
  auto *data = static_cast<float *>(s->inputData("x"));
  REQUIRE(data);
  CHECK(std::vector<float>(data, data + 8) == x);
  data[3] = x[3] = 50;
  REQUIRE(s->run().isOk());
  for (float &v : x) v += 11;
  CHECK(values(s->fetch("y")) == x);
}

TEST_CASE("lags that a plan may not have", "[pipeline]") {
  CHECK(refusal(lagging(2, 3, 4)) == "accepted");
  CHECK(refusal(lagging(2, 2, 4)) == "OPC0816"); // overwritten before it is read
  CHECK(refusal(lagging(1, 1, 4)) == "OPC0816");
  CHECK(refusal(lagging(0, 1, 4)) == "accepted");
  CHECK(refusal(lagging(2000, 3, 4)) == "OPC0811");
  auto changed = [](auto change) {
    PlanBuilder b = lagging(1, 2, 4);
    change(b);
    return refusal(b);
  };
  CHECK(changed([](PlanBuilder &b) { b.plan.mutable_task(0)->set_lag(2); }) == "OPC0816"); // read before it is made
  CHECK(changed([](PlanBuilder &b) { b.plan.mutable_register_(0)->set_credits(3); }) == "OPC0813");
  CHECK(changed([](PlanBuilder &b) { b.plan.clear_micro_batches(); }) == "OPC0813");
  // Two tasks of different lags write one register.
  CHECK(changed([](PlanBuilder &b) { b.plan.mutable_tensor(2)->set_register_(1); }) == "OPC0816");
  // A register that lives over turns, or that an output shows, shares no memory.
  CHECK(changed([](PlanBuilder &b) {
          const uint32_t z = b.tensor("z", Shape{2}), w = b.tensor("w", Shape{2});
          b.add("z", 0, z, 1);
          b.add("w", z, w, 1);
          b.plan.mutable_register_(3)->set_offset(b.plan.register_(1).offset());
        }) == "OPC0817");
  // A variable that is updated in another turn than it is read.
  auto training = [](uint32_t stride, uint32_t readerLag, uint32_t updateLag) {
    PlanBuilder b = lagging(0, 1, 4);
    const uint32_t w = b.variable("w", Shape{2}), z = b.tensor("z", Shape{2});
    b.lastVariable()->mutable_initializer()->mutable_constant_conf()->set_value(0);
    b.add("read", w, z, 0)->set_lag(readerLag);
    plan::Task *t = b.task("update", "runtime_test_update", {{"model", {w}}, {"delta", {0}}}, {});
    t->set_lag(updateLag);
    t->set_stride(stride);
    return refusal(b);
  };
  CHECK(training(4, 0, 2) == "accepted");
  CHECK(training(4, 2, 2) == "accepted");
  CHECK(training(1, 2, 2) == "accepted");
  CHECK(training(1, 0, 2) == "OPC0816");
  CHECK(training(4, 3, 2) == "OPC0816");
}

TEST_CASE("waits between streams that lags turn into a deadlock", "[pipeline]") {
  // Stream 0: f, then b (lag), which reads what stream 1 makes of f.
  auto loop = [](uint32_t lag, uint32_t credits) {
    PlanBuilder b;
    const uint32_t other = b.stream();
    const uint32_t x = b.input("x", Shape{2}), f = b.tensor("f", Shape{2}, kFloat, plan::Register::ACTIVATION, credits),
                   g = b.tensor("g", Shape{2}), y = b.tensor("y", Shape{2});
    b.add("f", x, f, 1);
    b.add("g", f, g, 10, other);
    b.add("b", g, y, 100)->set_lag(lag);
    b.output("y", y);
    return b;
  };
  for (uint32_t lag : {0u, 1u, 3u})
    for (uint32_t credits : {1u, 2u, 4u}) {
      CAPTURE(lag, credits);
      // g has one slot, so stream 1 waits at step 1 for b(0), which comes after f(lag): f needs lag slots.
      const bool fits = credits >= lag;
      Result<Session> s = Session::load(loop(lag, credits).encode(), registry());
      CHECK((s ? "accepted" : s.status().id()) == (fits ? "accepted" : "OPC0819"));
      if (!s) continue;
      REQUIRE(s->feed("x", floats({1, 2})).isOk());
      for (int round = 1; round < 20; ++round) REQUIRE(s->run(round).isOk());
      CHECK(values(s->fetch("y")) == std::vector<float>{112, 113});
    }
}

/// Stage 0 on rank 0: x -> f -> (send); (receive) -> b -> y. Stage 1 on rank 1: (receive) -> g -> (send).
JobBuilder twoStages(uint32_t microBatches, uint32_t lag) {
  JobBuilder job(2);
  job.plan.set_micro_batches(microBatches);
  const uint32_t first = job.placement({1}, {0}), second = job.placement({1}, {1});
  const Shape shape{2};
  const plan::Sharding on0 = job.sharding(first, "B", shape), on1 = job.sharding(second, "B", shape);
  const auto slots = plan::Register::ACTIVATION;
  {
    PlanBuilder b;
    const uint32_t comm = b.stream();
    b.plan.mutable_stream(1)->set_device("comm");
    const uint32_t x = b.input("x", shape), f = b.tensor("f", shape, kFloat, slots, lag + 1),
                   back = b.tensor("back", shape), y = b.tensor("y", shape, kFloat, slots, microBatches);
    plan::Register *r = b.plan.mutable_register_(static_cast<int>(b.plan.tensor(static_cast<int>(x)).register_()));
    r->set_credits(microBatches);
    r->set_stride(64);
    r->set_offset(b.plan.arena(0).bytes());
    b.plan.mutable_arena(0)->set_bytes(b.plan.arena(0).bytes() + 64 * microBatches);
    *b.plan.mutable_interface()->mutable_input(0)->mutable_sharding() = on0;
    b.add("f", x, f, 1);
    b.add("b", back, y, 100)->set_lag(lag);
    box(b, "send", "exchange", -1, f, on0, -1, on1, comm);
    box(b, "receive", "exchange", -1, -1, on1, back, on0, comm)->set_lag(lag);
    b.output("y", y);
    *b.plan.mutable_interface()->mutable_output(0)->mutable_sharding() = on0;
    job.part(b, {0});
  }
  {
    PlanBuilder b;
    const uint32_t comm = b.stream();
    b.plan.mutable_stream(1)->set_device("comm");
    const uint32_t in = b.tensor("in", shape, kFloat, slots, lag + 1), g = b.tensor("g", shape, kFloat, slots, lag + 1);
    b.add("g", in, g, 10);
    box(b, "receive", "exchange", -1, -1, on0, in, on1, comm);
    box(b, "send", "exchange", -1, g, on1, -1, on0, comm)->set_lag(lag);
    job.part(b, {1});
  }
  return job;
}

TEST_CASE("two stages on two ranks form a pipeline", "[pipeline]") {
  for (uint32_t microBatches : {1u, 4u, 8u}) {
    for (uint32_t lag : {0u, 1u, 2u}) {
      CAPTURE(microBatches, lag);
      SessionOptions options;
      options.ranks = 2;
      options.timeout = 20;
      Result<Session> s = Session::load(twoStages(microBatches, lag).encode(), registry(), options);
      INFO(s.status().toString());
      REQUIRE(s.isOk());
      for (int round = 0; round < 3; ++round) {
        OrderOf order(0);
        s->observe(&order);
        std::vector<float> x(2 * microBatches);
        std::iota(x.begin(), x.end(), static_cast<float>(100 * round));
        REQUIRE(s->feed("x", floats(x)).isOk());
        const Status run = s->run();
        INFO(run.toString());
        REQUIRE(run.isOk());
        for (float &v : x) v += 111;
        CHECK(values(s->fetch("y")) == x);
        if (round == 0 && microBatches == 4 && lag == 1) CHECK(order.order == "f0 f1 b0 f2 b1 f3 b2 b3"); // 1F1B
        s->observe(nullptr);
      }
      Result<std::vector<RankStats>> stats = s->rankStats();
      REQUIRE(stats.isOk());
      for (const RankStats &r : *stats) CHECK(r.bytesSent == 3 * microBatches * 8);
    }
  }
}

} // namespace
