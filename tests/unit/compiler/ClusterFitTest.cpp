// Calibration: rates that are put into made-up measurements come out again; measuring runs on several ranks.
// SPDX-License-Identifier: Apache-2.0
#include "ClusterFit.h"
#include "InProcessCommunicator.h"
#include "Measurement.h"
#include "PlanBuilder.h"
#include "PlanOps.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <thread>

using namespace opc;
using namespace opc::simulate;

TEST_CASE("a fit finds the rates that measurements were made with", "[calibrate]") {
  MachineSamples m;
  m.name = "made up";
  m.ranks = 4;
  m.cores = 2;
  m.memoryBytes = 64;
  m.copyBandwidth = 8e9;
  m.taskOverhead = 1e-7;
  for (double h : {32.0, 100.0, 400.0}) {
    const OpCost cost{2 * h * h * h, 12 * h * h, true};
    const double width = 2 * h / 3;
    m.products.push_back({"matmul", kFloat, cost, cost.flops / (50e9 * width / (width + 20))});
  }
  for (double n : {1e3, 1e5, 1e6}) m.ops.push_back({"relu", kFloat, {2 * n, 8 * n}, 3e-6 + 1.5 * 8 * n / 8e9});
  m.ops.push_back({"tanh", kFloat, {100, 8000}, 1e-7 + 4 * 8000 / 8e9}); // one size only
  m.ops.push_back({"constant", kFloat, {0, 0}, 5e-7});
  const Placement mesh = Placement::dense({4});
  for (int64_t n : {64, 4096, 1 << 20}) {
    BoxingOp op{
        {BoxingKind::kAllReduce, 0, {SbpParallel::partialSum()}, {SbpParallel::broadcast()}, BoxingReduction::kSum},
        Shape({n}),
        kFloat,
        mesh,
        mesh};
    m.steps.push_back({op, boxingSeconds(op, MeshLinks{{{7e-6, 2e9}}, {7e-6, 2e9}})});
  }
  const auto c = fitCluster(m);
  REQUIRE(c);
  CHECK(c->flops.at(kFloat) == Approx(50e9));
  CHECK(c->efficiency.halfWidth == Approx(20));
  CHECK(c->ops.at("relu").overhead == Approx(3e-6));
  CHECK(c->ops.at("relu").factor == Approx(1.5));
  CHECK(c->ops.at("tanh").factor == Approx(4));
  CHECK(c->ops.at("constant").overhead == Approx(5e-7));
  CHECK(c->levels[0].collectives.at(BoxingKind::kAllReduce).latency == Approx(7e-6));
  CHECK(c->levels[0].collectives.at(BoxingKind::kAllReduce).bandwidth == Approx(2e9));
  CHECK(c->memoryBytes == 64);
  CHECK(parseCluster(clusterText(*c), "again"));
  for (const OpSample &s : m.ops) CHECK(opSeconds(*c, s.op, s.cost, s.type, 4) == Approx(s.seconds));
  CHECK(coreShare(*c, 2) == 2); // measured with 4 on 2 cores: two alone are twice as fast
  m.products.clear();
  CHECK(fitCluster(m).status().id() == "OPC0748");
}

TEST_CASE("ranks measure together and agree", "[calibrate]") {
  // A plan with two different ops and one of them twice.
  test::PlanBuilder b;
  const uint32_t x = b.input("x", {8, 8}), w = b.variable("w", {8, 8}), y = b.tensor("y", {8, 8}),
                 z = b.tensor("z", {8, 8});
  b.task("a", "matmul", {{"a", {x}}, {"b", {w}}}, {{"out", {y}}});
  b.task("b", "relu", {{"x", {y}}}, {{"y", {z}}});
  b.task("c", "relu", {{"x", {z}}}, {{"y", {y}}});
  b.task("bad", "no_such_op", {{"x", {z}}}, {{"y", {y}}});
  std::vector<runtime::OpUnderTest> ops;
  for (PlanOp &op : distinctOps(b.plan, test::registry())) ops.push_back({std::move(op.op), std::move(op.constant)});
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].constant == std::vector<bool>{false, true});

  constexpr size_t kRanks = 3;
  auto communicators = runtime::inProcessCommunicators(kRanks);
  std::vector<std::optional<Result<runtime::MachineMeasurement>>> found(kRanks);
  std::vector<std::thread> threads;
  runtime::MeasureOptions options;
  options.seconds = 1e-4;
  options.footprint = 1 << 16;
  for (size_t r = 0; r < kRanks; ++r)
    threads.emplace_back(
        [&, r] { found[r].emplace(runtime::measureMachine(*communicators[r], test::registry(), ops, options)); });
  for (std::thread &t : threads) t.join();
  for (const auto &f : found) {
    REQUIRE(*f);
    CHECK((*f)->products.size() >= 5);
    REQUIRE((*f)->ops.size() == 2);
    CHECK((*f)->ops[0].op == "matmul");
    CHECK((*f)->ops[0].cost.flops == 2 * 8 * 8 * 8);
    CHECK((*f)->steps.size() == 24);
    for (const auto &s : (*f)->steps) CHECK((s.seconds > 0 && std::isfinite(s.seconds)));
    CHECK((*f)->ops[0].seconds == (*found[0])->ops[0].seconds);
    CHECK((*f)->copyBandwidth == (*found[0])->copyBandwidth);
  }
}
