// Which tasks are done by one thread: what times decide, and that numbers do not depend on it.
// SPDX-License-Identifier: Apache-2.0
#include "ThreadGain.h"

#include <catch2/catch.hpp>

using opc::runtime::ThreadGain;

namespace {

/// One step of tasks that take these nanoseconds by all threads and by one. Which of them one thread did.
std::vector<bool> step(ThreadGain &gain, const std::vector<std::pair<int64_t, int64_t>> &tasks) {
  std::vector<bool> alone;
  for (size_t i = 0; i < tasks.size(); ++i) {
    alone.push_back(gain.isAlone(i));
    if (gain.isTrial()) gain.took(i, alone[i], alone[i] ? tasks[i].second : tasks[i].first);
  }
  gain.endStep();
  return alone;
}

} // namespace

TEST_CASE("small tasks are done in the way that took less time", "[thread_gain]") {
  const std::vector<std::pair<int64_t, int64_t>> tasks = {
      {9000, 3000}, {20000, 38000}, {500000, 1000}, {3000, 3050}, {3000, 3200}};
  ThreadGain gain(tasks.size());
  CHECK(step(gain, tasks) == std::vector<bool>(5, false)); // the first step is not one to learn from
  for (int i = 0; i < ThreadGain::kTrials; ++i) {
    CHECK(gain.isTrial());
    CHECK(step(gain, tasks) == std::vector<bool>(5, false));
    CHECK(step(gain, tasks) == std::vector<bool>{true, true, false, true, true}); // the long one is not tried
  }
  CHECK_FALSE(gain.isTrial());
  const std::vector<bool> chosen = {true, false, false, true, false}; // what is level within a thirty-second is alone
  for (int64_t i = 0; i < ThreadGain::kPause; ++i) REQUIRE(step(gain, tasks) == chosen);
  CHECK(gain.isTrial()); // and again, as the machine may be another by now
}

TEST_CASE("what is found later replaces what was found before", "[thread_gain]") {
  ThreadGain gain(1);
  for (int i = 0; i <= 2 * ThreadGain::kTrials; ++i) step(gain, {{9000, 3000}});
  CHECK(gain.isAlone(0));
  while (!gain.isTrial()) step(gain, {{9000, 3000}});
  for (int i = 0; i < 2 * ThreadGain::kTrials; ++i) step(gain, {{2000, 3000}});
  CHECK_FALSE(gain.isTrial());
  CHECK_FALSE(gain.isAlone(0));
}

TEST_CASE("one slow step among the trials decides nothing", "[thread_gain]") {
  ThreadGain gain(1);
  step(gain, {{1000, 3000}});
  for (int i = 0; i < 2 * ThreadGain::kTrials; ++i) step(gain, {{i == 2 ? 900000 : 1000, 3000}});
  CHECK_FALSE(gain.isAlone(0));
}
