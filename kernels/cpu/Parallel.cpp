// parallelFor on libgomp's pool, entered through its ABI so that any compiler shares the pool that oneDNN uses.
// SPDX-License-Identifier: Apache-2.0
#include "Parallel.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <exception>
#include <pthread.h>
#include <utility>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

extern "C" {
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
void omp_set_num_threads(int threads);
}

namespace opc::cpu {
namespace {

/// fork() copies the thread that calls it and none of the pool, which libgomp goes on to wait for. A child whose parent
/// had a pool works with one thread, for which libgomp needs none; results are the same bits.
std::atomic<bool> hasPool = false;
bool lostPool = false; // written before the child has a second thread

[[maybe_unused]] const int watching = ::pthread_atfork(nullptr, nullptr, [] {
  lostPool = hasPool;
  if (lostPool) omp_set_num_threads(1);
});

/// The pieces of one loop. Threads take the next piece until none is left: it does not matter how many threads the
/// pool really grants, nor that one of them is slowed down by other work on its core.
struct Loop {
  int64_t n, grain, chunks, pieces;
  void (*body)(void *, int64_t, int64_t);
  void *arg;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure{}; // the first one; written by who set `failed`

  /// Nothing that is thrown may leave a thread of the pool: the caller's throws it again.
  void work() noexcept {
    try {
      takePieces();
    } catch (...) {
      next.store(pieces, std::memory_order_relaxed); // nobody begins another piece
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }

  void takePieces() {
    for (int64_t p = next.fetch_add(1, std::memory_order_relaxed); p < pieces;
         p = next.fetch_add(1, std::memory_order_relaxed)) {
      const int64_t begin = chunks * p / pieces * grain;
      const int64_t end = std::min(n, chunks * (p + 1) / pieces * grain);
      body(arg, begin, end);
    }
  }
};

bool takeInvalidHere() {
#if defined(__x86_64__)
  const unsigned state = _mm_getcsr();
  if (!(state & _MM_EXCEPT_INVALID)) return false;
  _mm_setcsr(state & ~static_cast<unsigned>(_MM_EXCEPT_INVALID));
#else
  if (!std::fetestexcept(FE_INVALID)) return false;
  std::feclearexcept(FE_INVALID);
#endif
  return true;
}

} // namespace

bool takeInvalid(int threads) {
  // A thread that is new here has taken the place of one that ended with what it had noted.
  thread_local bool isKnown = false;
  isKnown = true;
  if (threads <= 1 || lostPool) return takeInvalidHere();
  std::atomic<bool> found{false};
  const auto take = [](void *to) {
    const bool isNew = !std::exchange(isKnown, true), isInvalid = takeInvalidHere();
    if (isNew || isInvalid) static_cast<std::atomic<bool> *>(to)->store(true, std::memory_order_relaxed);
  };
  GOMP_parallel(take, &found, static_cast<unsigned>(threads), 0);
  return found;
}

void parallelFor(int64_t n, int64_t grain, int threads, void (*body)(void *, int64_t, int64_t), void *arg) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t chunks = (n - 1) / grain + 1;
  const int team = lostPool ? 1 : static_cast<int>(std::min<int64_t>(threads, chunks));
  if (team <= 1) return body(arg, 0, n);
  // Four pieces a thread even out what one thread loses to others on its core; more would cost locality. All threads
  // are called, though there may be fewer pieces: of a smaller team libgomp ends the others, and makes new ones for the
  // next.
  Loop loop{n, grain, chunks, std::min<int64_t>(chunks, int64_t{4} * team), body, arg};
  GOMP_parallel([](void *l) { static_cast<Loop *>(l)->work(); }, &loop, static_cast<unsigned>(threads), 0);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

void setLibraryThreads(int threads) {
  omp_set_num_threads(lostPool ? 1 : std::max(threads, 1));
  if (threads > 1) hasPool = true; // whoever sets threads goes on to use them
}

} // namespace opc::cpu
