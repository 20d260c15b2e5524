// A graph beside a peer, by turns in one process.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Graphs.h"

#include "Session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

extern "C" void omp_set_num_threads(int threads);
extern "C" void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
extern "C" int omp_get_thread_num(void);
extern "C" int omp_get_num_threads(void);

namespace opc::bench {

double secondsOf(const std::function<void()> &f, int runs) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void inParallel(int threads, int64_t n, const std::function<void(int64_t, int64_t)> &f) {
  struct Work {
    int64_t n;
    const std::function<void(int64_t, int64_t)> &f;
  } work{n, f};
  GOMP_parallel(
      [](void *p) {
        const auto &w = *static_cast<const Work *>(p);
        const int64_t t = omp_get_thread_num(), of = omp_get_num_threads();
        w.f(w.n * t / of, w.n * (t + 1) / of);
      },
      &work, static_cast<unsigned>(threads), 0);
}

std::vector<Row> compare(const std::string &name, const std::string &graph, int threads, const std::string &peer,
                         const std::function<std::function<void()>()> &makePeer, int rounds) {
  const Registry registry = linkedRegistry();
  SessionOptions options;
  options.threads = threads;
  auto session = Session::load(planOf(registry, name, graph), registry, options);
  if (!session) return {};
  for (const PortInfo &p : session->interface().inputs) {
    auto *x = static_cast<float *>(session->inputData(p.name));
    for (int64_t i = 0; i < p.desc.shape().elem_cnt(); ++i) x[i] = static_cast<float>(i % 13) * 0.01f - 0.05f;
  }
  if (!session->run().isOk()) return {};
  omp_set_num_threads(threads);
  const std::function<void()> direct = makePeer();
  const std::function<void()> ours = [&] { (void)session->run(); };
  const auto theirs = [&] {
    omp_set_num_threads(threads);
    direct();
  };
  theirs();
  const double once = std::max(secondsOf(ours, 2), secondsOf(theirs, 2));
  const int runs = std::clamp(static_cast<int>(0.01 / once), 1, 100);
  double value = once, reference = once;
  for (int round = 0; round < rounds; ++round) {
    value = std::min(value, secondsOf(ours, runs));
    reference = std::min(reference, secondsOf(theirs, runs));
  }
  return {{name, value * 1e6, "us", reference * 1e6, peer}};
}

} // namespace opc::bench
