// Sessions of several ranks from plans written by hand: cut products, boxing inline and on a stream of its own,
// variables.
// SPDX-License-Identifier: Apache-2.0
#include "JobBuilder.h"
#include "NoThreads.h"
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <map>
#include <mutex>
#include <numeric>

namespace {

using namespace opc;
using namespace opc::test;

std::vector<float> counted(size_t n, float first) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}
/// The definition, in f64.
std::vector<float> product(const std::vector<float> &a, const std::vector<float> &b, size_t m, size_t k, size_t n) {
  std::vector<float> out(m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (size_t x = 0; x < k; ++x) sum += static_cast<double>(a[i * k + x]) * static_cast<double>(b[x * n + j]);
      out[i * n + j] = static_cast<float>(sum);
    }
  return out;
}

Result<Session> load(const JobBuilder &job, int64_t ranks) {
  SessionOptions options;
  options.threads = 2;
  options.ranks = ranks;
  options.timeout = 20;
  return Session::load(job.encode(), registry(), options);
}

/// How a product x [m, k] times w [k, n] is cut, and how it is put together.
struct Cut {
  std::string x, w, y; // states
  std::string boxing;  // from y to B; empty: y is the output as it is
  bool onCommStream = false;
};

/// One part for each rank, so that uneven pieces work as well.
JobBuilder cutProduct(const Cut &cut, int64_t ranks, int64_t m, int64_t k, int64_t n) {
  JobBuilder job(ranks);
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), int64_t{0});
  const uint32_t p = job.placement({ranks}, all);
  const Shape xs{m, k}, ws{k, n}, ys{m, n};
  for (int64_t r = 0; r < ranks; ++r) {
    PlanBuilder b;
    const uint32_t x = b.input("x", job.local(p, cut.x, xs, r)), w = b.variable("w", job.local(p, cut.w, ws, r)),
                   y = b.tensor("y", job.local(p, cut.y, ys, r));
    *b.plan.mutable_interface()->mutable_input(0)->mutable_sharding() = job.sharding(p, cut.x, xs);
    *b.lastVariable()->mutable_sharding() = job.sharding(p, cut.w, ws);
    b.lastVariable()->mutable_initializer()->mutable_random_uniform_conf()->set_max(2);
    plan::Task *t = b.task("product", "matmul", {{"a", {x}}, {"b", {w}}}, {{"out", {y}}});
    *t->add_sharding() = job.sharding(p, cut.x, xs);
    *t->add_sharding() = job.sharding(p, cut.w, ws);
    *t->add_sharding() = job.sharding(p, cut.y, ys);
    uint32_t out = y;
    std::string state = cut.y;
    if (!cut.boxing.empty()) {
      out = b.tensor("whole", ys);
      state = "B";
      uint32_t stream = 0;
      if (cut.onCommStream) {
        stream = b.stream();
        b.plan.mutable_stream(1)->set_device("comm");
      }
      box(b, "boxing", cut.boxing, 0, y, job.sharding(p, cut.y, ys), out, job.sharding(p, "B", ys), stream);
    }
    b.output("y", out);
    *b.plan.mutable_interface()->mutable_output(0)->mutable_sharding() = job.sharding(p, state, ys);
    job.part(b, {r});
  }
  return job;
}

TEST_CASE("a product cut over ranks is the product", "[ranks]") {
  const std::vector<Cut> cuts = {{"S(0)", "B", "S(0)", "", false},          {"S(0)", "B", "S(0)", "all_gather", false},
                                 {"B", "S(1)", "S(1)", "", false},          {"B", "S(1)", "S(1)", "all_gather", true},
                                 {"S(1)", "S(0)", "P", "", false},          {"S(1)", "S(0)", "P", "all_reduce", false},
                                 {"S(1)", "S(0)", "P", "all_reduce", true}, {"B", "B", "B", "", false},
                                 {"P", "B", "P", "all_reduce", false}};
  for (int64_t ranks : {1, 2, 3}) {
    for (const Cut &cut : cuts) {
      const int64_t m = 7, k = 8, n = 5;
      CAPTURE(ranks, cut.x, cut.w, cut.y, cut.boxing, cut.onCommStream);
      Result<Session> s = load(cutProduct(cut, ranks, m, k, n), ranks);
      INFO(s.status().toString());
      REQUIRE(s.isOk());
      CHECK(s->ranks() == ranks);
      CHECK(s->interface().inputs[0].desc.shape() == Shape{m, k});
      CHECK(s->interface().outputs[0].desc.shape() == Shape{m, n});
      const std::vector<float> w = counted(static_cast<size_t>(k * n), -11);
      REQUIRE(s->setVariable("w", floats(w, Shape{k, n})).isOk());
      for (int round = 0; round < 3; ++round) {
        const std::vector<float> x = counted(static_cast<size_t>(m * k), static_cast<float>(round));
        REQUIRE(s->feed("x", floats(x, Shape{m, k})).isOk());
        const Status run = s->run(1 + round);
        INFO(run.toString());
        REQUIRE(run.isOk());
        const std::vector<float> expected = product(x, w, 7, 8, 5);
        CHECK(values(s->fetch("y")) == expected);
        const auto *data = static_cast<const float *>(s->outputData("y"));
        REQUIRE(data);
        CHECK(std::vector<float>(data, data + expected.size()) == expected);
      }
      CHECK(values(s->variable("w")) == w);
    }
  }
}

TEST_CASE("inputs filled in place are cut at every run", "[ranks]") {
  Result<Session> s = load(cutProduct({"S(0)", "S(0)", "B", "", false}, 2, 4, 4, 4), 2);
  CHECK(s.status().id() == "OPC0715"); // no signature of a product
  s = load(cutProduct({"S(0)", "B", "S(0)", "all_gather", false}, 2, 3, 2, 2), 2);
  REQUIRE(s.isOk());
  auto *x = static_cast<float *>(s->inputData("x"));
  auto *w = static_cast<float *>(s->variableData("w"));
  REQUIRE((x && w));
  for (int i = 0; i < 4; ++i) w[i] = i % 3 == 0 ? 1 : 0; // the identity
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 6; ++i) x[i] = static_cast<float>(i + 10 * round);
    REQUIRE(s->run().isOk());
    CHECK(values(s->fetch("y")) == counted(6, static_cast<float>(10 * round)));
  }
  CHECK(s->step() == 3);
  REQUIRE(s->feed("x", floats(counted(6, 70), Shape{3, 2})).isOk());
  x = static_cast<float *>(s->inputData("x"));
  REQUIRE(x);
  CHECK(std::vector<float>(x, x + 6) == counted(6, 70)); // what was fed, put together
  for (int i = 0; i < 6; ++i) x[i] += 1;
  REQUIRE(s->run().isOk());
  CHECK(values(s->fetch("y")) == counted(6, 71));
}

TEST_CASE("ranks for which there are no threads are an error, and the next run tries again", "[ranks]") {
  Result<Session> s = load(cutProduct({"S(0)", "B", "S(0)", "all_gather", false}, 2, 3, 2, 2), 2);
  REQUIRE(s.isOk());
  REQUIRE(s->setVariable("w", floats({1, 0, 0, 1}, Shape{2, 2})).isOk());
  REQUIRE(s->feed("x", floats(counted(6, 4), Shape{3, 2})).isOk());
  {
    const NoThreads none;
    CHECK(s->run().id() == "OPC0614");
    CHECK(s->run().id() == "OPC0614");
  }
  REQUIRE(s->run().isOk());
  CHECK(values(s->fetch("y")) == counted(6, 4));
}

TEST_CASE("variables begin with the same numbers on any number of ranks", "[ranks]") {
  Result<Session> one = load(cutProduct({"B", "B", "B", "", false}, 1, 4, 6, 6), 1);
  REQUIRE(one.isOk());
  const std::vector<float> whole = values(one->variable("w"));
  CHECK(whole[0] != whole[7]);
  for (const char *state : {"S(0)", "S(1)"})
    for (int64_t ranks : {2, 4}) {
      const bool rows = std::string(state) == "S(0)";
      Result<Session> s =
          load(cutProduct({rows ? "S(1)" : "B", state, rows ? "P" : "S(1)", "", false}, ranks, 4, 6, 6), ranks);
      INFO(s.status().toString());
      REQUIRE(s.isOk());
      CHECK(values(s->variable("w")) == whole);
    }
}

TEST_CASE("what ranks send is counted, and fetching does not count", "[ranks]") {
  Result<Session> s = load(cutProduct({"S(1)", "S(0)", "P", "all_reduce", false}, 2, 4, 4, 4), 2);
  REQUIRE(s.isOk());
  REQUIRE(s->feed("x", floats(counted(16, 0), Shape{4, 4})).isOk());
  REQUIRE(s->run(3).isOk());
  values(s->variable("w"));
  Result<std::vector<RankStats>> stats = s->rankStats();
  REQUIRE(stats.isOk());
  REQUIRE(stats->size() == 2);
  for (const RankStats &r : *stats) CHECK(r.bytesSent == 3 * 64); // 2 (p - 1) / p of 64 bytes
  CHECK(stats->at(1).rank == 1);
}

TEST_CASE("an observer sees the tasks of the first rank, or of all, with what they send", "[ranks][observer]") {
  struct Seen final : RunObserver {
    std::mutex lock;
    std::map<std::pair<int64_t, std::string>, std::vector<int64_t>> sent; // by rank and task
    Status after(const ObservedTask &task, int64_t, TaskData &) override {
      std::lock_guard<std::mutex> guard(lock);
      sent[{task.rank, task.name}].push_back(task.isTransfer ? task.bytesSent : -1);
      return Status::ok();
    }
  };
  for (bool onAllRanks : {true, false}) {
    Result<Session> s = load(cutProduct({"S(1)", "S(0)", "P", "all_reduce", true}, 3, 6, 6, 4), 3);
    REQUIRE(s.isOk());
    REQUIRE(s->feed("x", floats(counted(36, 0), Shape{6, 6})).isOk());
    Seen seen;
    s->observe(&seen, onAllRanks);
    REQUIRE(s->run(2).isOk());
    s->observe(nullptr);
    REQUIRE(s->run(1).isOk());
    for (int64_t rank : {0, 1, 2}) {
      const std::vector<int64_t> products(rank == 0 || onAllRanks ? 2 : 0, -1);
      CHECK(seen.sent[{rank, "product"}] == products);
      // 2 (p - 1) / p of 96 bytes.
      CHECK(seen.sent[{rank, "boxing"}] == std::vector<int64_t>(products.size(), 128));
    }
  }
}

TEST_CASE("constants are cut when a plan is loaded", "[ranks]") {
  JobBuilder job(3);
  const uint32_t p = job.placement({3}, {0, 1, 2});
  const Shape whole{7};
  for (int64_t r = 0; r < 3; ++r) {
    PlanBuilder b;
    const Shape local = job.local(p, "S(0)", whole, r);
    const uint32_t c = b.tensor("c", local, kFloat, plan::Register::CONSTANT), y = b.tensor("y", local);
    auto *constant = b.plan.mutable_interface()->add_constant();
    constant->set_tensor(c);
    const std::vector<float> data = counted(7, 1);
    constant->set_data(data.data(), 28);
    *constant->mutable_sharding() = job.sharding(p, "S(0)", whole);
    plan::Task *t = b.task("relu", "relu", {{"x", {c}}}, {{"y", {y}}});
    *t->add_sharding() = job.sharding(p, "S(0)", whole);
    *t->add_sharding() = job.sharding(p, "S(0)", whole);
    b.output("y", y);
    *b.plan.mutable_interface()->mutable_output(0)->mutable_sharding() = job.sharding(p, "S(0)", whole);
    job.part(b, {r});
  }
  Result<Session> s = load(job, 3);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  REQUIRE(s->run().isOk());
  CHECK(values(s->fetch("y")) == counted(7, 1));
}

TEST_CASE("a failure on one rank ends the run with its name, and the session goes on", "[ranks]") {
  JobBuilder job(2);
  const uint32_t p = job.placement({2}, {0, 1});
  for (int64_t r = 0; r < 2; ++r) { // the second rank's piece begins with the third element
    PlanBuilder b;
    const uint32_t x = b.input("x", Shape{2}), q = b.tensor("q", Shape{1}), y = b.tensor("y", Shape{1});
    const uint32_t w = b.tensor("tmp", Shape{8}, kUInt8, plan::Register::WORKSPACE);
    *b.plan.mutable_interface()->mutable_input(0)->mutable_sharding() = job.sharding(p, "S(0)", Shape{4});
    b.task("squares", "runtime_test_sum_squares", {{"in", {x}}}, {{"out", {q}}})->set_workspace(w + 1);
    box(b, "sum", "all_reduce", 0, q, job.sharding(p, "P", Shape{1}), y, job.sharding(p, "B", Shape{1}));
    b.output("y", y);
    *b.plan.mutable_interface()->mutable_output(0)->mutable_sharding() = job.sharding(p, "B", Shape{1});
    job.part(b, {r});
  }
  Result<Session> s = load(job, 2);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  for (int round = 0; round < 5; ++round) {
    REQUIRE(s->feed("x", floats({1, 0, -1, 0}, Shape{4})).isOk());
    const Status failed = s->run();
    INFO(failed.toString());
    CHECK(failed.code() == StatusCode::kExecution);
    CHECK(failed.toString().find("rank 1") != std::string::npos);
    CHECK(failed.toString().find("the first element is negative") != std::string::npos);
    CHECK(s->fetch("y").status().id() == "OPC0613");
    REQUIRE(s->feed("x", floats({1, 2, 3, 4}, Shape{4})).isOk());
    REQUIRE(s->run().isOk());
    CHECK(values(s->fetch("y")) == std::vector<float>{30});
  }
}

/// The code with which a job is refused.
std::string refusal(const JobBuilder &job, int64_t ranks = 2) {
  Result<Session> s = load(job, ranks);
  return s ? "accepted" : s.status().id();
}

TEST_CASE("plans of several ranks that are refused", "[ranks]") {
  const Cut cut{"S(1)", "S(0)", "P", "all_reduce", false};
  const JobBuilder good = cutProduct(cut, 2, 4, 4, 4);
  REQUIRE(refusal(good) == "accepted");
  CHECK(refusal(good, 1) == "OPC0714");
  CHECK(refusal(good, 3) == "OPC0714");
  auto changed = [&](auto change) {
    JobBuilder job = good;
    change(job.plan);
    return refusal(job);
  };
  using plan::Plan;
  auto task = [](Plan &p, int i) { return p.mutable_part(1)->mutable_task(i); };
  auto boxing = [&](Plan &p) { return task(p, 1)->mutable_boxing(); };
  // Placements.
  CHECK(changed([](Plan &p) { p.mutable_placement(0)->set_dim(0, 3); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.mutable_placement(0)->set_dim(0, -2); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.mutable_placement(0)->clear_dim(); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.mutable_placement(0)->set_rank(1, 0); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.mutable_placement(0)->set_rank(1, 2); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.clear_placement(); }) == "OPC0715");
  // Parts.
  CHECK(changed([](Plan &p) { p.set_part_of_rank(1, 2); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.add_task(); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.mutable_part(0)->add_part(); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.set_micro_batches(5000); }) == "OPC0715");
  CHECK(changed([](Plan &p) { p.mutable_part(0)->add_placement(); }) == "OPC0715");
  // Shardings.
  CHECK(changed([](Plan &p) { p.mutable_part(1)->mutable_interface()->mutable_input(0)->clear_sharding(); }) ==
        "OPC0715");
  CHECK(changed([](Plan &p) {
          p.mutable_part(1)->mutable_interface()->mutable_input(0)->mutable_sharding()->set_state(0, -1);
        }) == "OPC0715");
  CHECK(changed([](Plan &p) {
          p.mutable_part(1)->mutable_interface()->mutable_variable(0)->mutable_sharding()->set_state(0, 2);
        }) == "OPC0715");
  CHECK(changed([](Plan &p) {
          p.mutable_part(1)->mutable_interface()->mutable_variable(0)->mutable_sharding()->set_dim(0, 5);
        }) == "OPC0715");
  CHECK(changed([&](Plan &p) { task(p, 0)->mutable_sharding(0)->set_state(0, -3); }) == "OPC0715");
  CHECK(changed([&](Plan &p) { task(p, 0)->mutable_sharding(0)->set_placement(9); }) == "OPC0715");
  CHECK(changed([&](Plan &p) { task(p, 0)->mutable_sharding(0)->set_dim(0, int64_t{1} << 62); }) == "OPC0715");
  CHECK(changed([&](Plan &p) { task(p, 0)->mutable_sharding()->RemoveLast(); }) == "OPC0715");
  CHECK(changed([&](Plan &p) { task(p, 0)->mutable_sharding(2)->set_state(0, -1); }) == "OPC0715"); // P is not B
  CHECK(changed([&](Plan &p) { task(p, 0)->clear_sharding(); }) == "accepted"); // the rules hold for the pieces, too
  // Boxing.
  CHECK(changed([&](Plan &p) { boxing(p)->set_kind("teleport"); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { boxing(p)->set_kind("all_gather"); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { boxing(p)->set_mesh_dim(1); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { boxing(p)->set_mesh_dim(-1); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { boxing(p)->set_reduction("median"); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { boxing(p)->clear_from(); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { *boxing(p)->add_from() = boxing(p)->from(0); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { boxing(p)->mutable_to(0)->set_dim(0, 2); }) == "OPC0716");
  CHECK(changed([&](Plan &p) {
          boxing(p)->mutable_from(0)->set_dim(0, 3);
          boxing(p)->mutable_to(0)->set_dim(0, 3);
        }) == "OPC0715");
  CHECK(changed([&](Plan &p) {
          boxing(p)->set_kind("exchange");
          boxing(p)->set_mesh_dim(-1);
        }) == "OPC0716");
  CHECK(changed([&](Plan &p) { task(p, 1)->clear_output(); }) != "accepted");
  CHECK(changed([&](Plan &p) { task(p, 1)->clear_boxing(); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { *task(p, 0)->mutable_boxing() = task(p, 1)->boxing(); }) == "OPC0716");
  CHECK(changed([&](Plan &p) { task(p, 1)->set_workspace(1); }) == "OPC0716");
  CHECK(changed([](Plan &p) { p.mutable_part(1)->mutable_stream(0)->set_device("comm"); }) == "OPC0716");
  // A plan of one rank on two.
  PlanBuilder alone;
  const uint32_t x = alone.input("x", Shape{2}), y = alone.tensor("y", Shape{2});
  alone.add("xy", x, y, 1);
  SessionOptions two;
  two.ranks = 2;
  CHECK(Session::load(alone.encode(), registry(), two).status().id() == "OPC0714");
}

} // namespace
