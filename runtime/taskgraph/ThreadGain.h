// Which tasks are done sooner by one thread than by several: found by trying both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opc::runtime {

/// Waking threads takes microseconds, and so does moving what they share from one core's cache to another's: how many
/// is the machine's secret and the neighbours', so that a kernel cannot know from its sizes what it gains. The first
/// steps of a run do each small task in both ways by turns, the later ones in the faster way; now and then that is
/// tried again, since the machine may be busier or idler than before. Results have the same bits either way.
class ThreadGain {
public:
  /// What takes longer is left to all threads untried: what it may gain is more than what waking costs.
  static constexpr int64_t kSmall = 100'000; // nanoseconds
  static constexpr int kTrials = 4;          // in each way
  static constexpr int64_t kPause = 1000;    // steps until it is tried again

  explicit ThreadGain(size_t tasks = 0) : alone_(tasks), least_{Times(tasks, kNone), Times(tasks, kNone)} {}

  /// Whether the step that begins now is one of those that are timed: took() for each of its tasks.
  bool isTrial() const { return step_ > 0 && step_ <= 2 * kTrials; } // the first step finds cold caches
  /// Whether one thread is to do the task in this step.
  bool isAlone(size_t task) const {
    if (!isTrial()) return alone_[task] != 0;
    return step_ % 2 == 0 && least_[0][task] <= kSmall; // together comes first
  }
  void took(size_t task, bool alone, int64_t nanoseconds) {
    int64_t &least = least_[alone ? 1 : 0][task];
    if (nanoseconds < least) least = nanoseconds;
  }
  /// After each step that has succeeded, timed or not.
  void endStep();

private:
  using Times = std::vector<int64_t>;
  static constexpr int64_t kNone = INT64_MAX;

  std::vector<uint8_t> alone_; // by task
  Times least_[2];             // by all threads, and by one
  int64_t step_ = 0;
};

} // namespace opc::runtime
