// What the pool of threads says of operations without a result, for kernels that lose NaN.
// SPDX-License-Identifier: Apache-2.0
#include "Parallel.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <limits>
#include <thread>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace opc;

namespace {

/// Calls body() in the first piece of a loop that begins, in whatever thread that is.
template <class F> void inOneThread(int threads, F body) {
  struct Work {
    F body;
    std::atomic<int> begun{0};
  } work{body};
  cpu::parallelFor(
      threads, 1, threads,
      [](void *w, int64_t begin, int64_t end) {
        auto *work = static_cast<Work *>(w);
        for (int64_t i = begin; i < end; ++i)
          if (work->begun.fetch_add(1) == 0) work->body();
      },
      &work);
}

volatile float infinite = std::numeric_limits<float>::infinity();
volatile float sink;
void makeNan() { sink = infinite - infinite; }

} // namespace

TEST_CASE("the pool says that a NaN was made, once", "[parallel]") {
  for (const int threads : {1, 2, 4}) {
    std::thread([threads] { // with a pool of its own
      INFO(threads << " threads");
      cpu::setLibraryThreads(threads);
      cpu::takeInvalid(threads);
      CHECK_FALSE(cpu::takeInvalid(threads));
      inOneThread(threads, [] { sink = infinite * 2; });
      CHECK_FALSE(cpu::takeInvalid(threads));
      for (int i = 0; i < 50; ++i) {
        inOneThread(threads, makeNan);
        CHECK(cpu::takeInvalid(threads));
        CHECK_FALSE(cpu::takeInvalid(threads));
      }
    })
        .join();
  }
}

TEST_CASE("a maximum of a NaN is an operation without a result", "[parallel]") {
  cpu::takeInvalid(1);
  const volatile float nan = std::numeric_limits<float>::quiet_NaN();
  sink = nan + 1; // NaN that is handed on is none
  CHECK_FALSE(cpu::takeInvalid(1));
#if defined(__x86_64__) // the instruction that libraries end an activation with
  sink = _mm_cvtss_f32(_mm_max_ss(_mm_set_ss(nan), _mm_set_ss(sink)));
  CHECK(cpu::takeInvalid(1));
#endif
}

TEST_CASE("loops of few pieces leave the threads of the pool as they are", "[parallel]") {
  std::thread([] {
    constexpr int kThreads = 4;
    cpu::setLibraryThreads(kThreads);
    cpu::takeInvalid(kThreads);
    for (int i = 0; i < 20; ++i) {
      cpu::parallelFor(2, 1, kThreads, [](void *, int64_t, int64_t) {}, nullptr);
      CHECK_FALSE(cpu::takeInvalid(kThreads)); // a new thread would say so
    }
  }).join();
}
