// What a task and a call cost when their work is next to nothing, and what loading a plan costs.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"

#include "Session.h"

#include <algorithm>
#include <cstdio>

namespace opc::bench {
namespace {

/// The same additions without tasks: what the elements alone cost. Not inlined, like a kernel.
__attribute__((noinline)) void addHalf(const float *x, float *y) {
  for (int i = 0; i < 8; ++i) y[i] = x[i] + 0.5f;
}

std::vector<Row> overhead() {
  constexpr int kTasks = 1000;
  const Registry registry = linkedRegistry();
  const std::string plan = planOf(registry, "generated.pbtxt", addChain(kTasks, 8), /*regions=*/false);
  SessionOptions options;
  options.threads = 1;
  auto session = Session::load(plan, registry, options);
  if (!session) {
    std::fprintf(stderr, "%s\n", session.status().toString().c_str());
    return {};
  }
  auto *x = static_cast<float *>(session->inputData("x"));
  std::fill(x, x + 8, 0.0f);
  if (!session->run(100).isOk()) return {};
  double best = 1e9, direct = 1e9;
  // Interleaved: the machine's speed wanders.
  for (int round = 0; round < 20; ++round) {
    best = std::min(best, medianSeconds(5, [&] { (void)session->run(20); }) / (20.0 * kTasks));
    alignas(64) float a[8] = {}, b[8] = {};
    direct = std::min(direct, medianSeconds(5, [&] {
                                for (int i = 0; i < 10 * kTasks; ++i) {
                                  addHalf(a, b);
                                  addHalf(b, a);
                                }
                              }) / (20.0 * kTasks));
  }
  return {{"task/scalar_add_f32x8", best * 1e9, "ns", 50, "limit"},
          {"task/scalar_add_f32x8_direct", direct * 1e9, "ns", best * 1e9, "task"}};
}

/// A call as programs make it: 8 floats in, a run of one op, 8 floats out. The op's own nanoseconds are in it.
std::vector<Row> calls() {
  const Registry registry = linkedRegistry();
  const std::string plan = planOf(registry, "generated.pbtxt", addChain(1, 8), /*regions=*/false);
  std::vector<Row> rows;
  for (const int threads : {1, 2}) {
    SessionOptions options;
    options.threads = threads;
    auto session = Session::load(plan, registry, options);
    auto x = HostTensor::create(kFloat, Shape{8});
    if (!session || !x) {
      std::fprintf(stderr, "%s\n", (session ? x.status() : session.status()).toString().c_str());
      return {};
    }
    bool isGood = true;
    const auto call = [&] {
      const bool isRun = session->feed("x", *x).isOk() && session->run(1).isOk();
      isGood = isGood && isRun && session->fetch("y").isOk();
    };
    for (int i = 0; i < 1000; ++i) call();
    double best = 1e9;
    for (int round = 0; round < 20; ++round)
      best = std::min(best, medianSeconds(5, [&] {
                              for (int i = 0; i < 1000; ++i) call();
                            }) / 1000);
    if (!isGood) {
      std::fprintf(stderr, "a call failed\n");
      return {};
    }
    rows.push_back({"call/feed_run_fetch_t" + std::to_string(threads), best * 1e6, "us", 3, "limit"});
  }
  return rows;
}

std::vector<Row> loading() {
  const Registry registry = linkedRegistry();
  const std::string plan = planOf(registry, "generated.pbtxt", addChain(1000, 8), /*regions=*/false);
  const double seconds = medianSeconds(11, [&] {
    auto session = Session::load(plan, registry);
    if (!session || !session->prepare().isOk()) std::fprintf(stderr, "load failed\n");
  });
  return {{"load/plan_1000_tasks", seconds * 1e3, "ms", 10, "limit"}};
}

} // namespace

std::vector<Benchmark> taskOverhead() {
  return {{{"task/scalar_add_f32x8", "task/scalar_add_f32x8_direct"}, overhead},
          {{"call/feed_run_fetch_t1", "call/feed_run_fetch_t2"}, calls},
          {{"load/plan_1000_tasks"}, loading}};
}

} // namespace opc::bench
