// --report: the page of `opc report` for the graph that ran, with the timeline that was measured and what came out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "JsonOutput.h"
#include "PageTimeline.h"
#include "Session.h"

#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace opc::cli {

/// When the tasks of the last run began and ended.
class RunTimeline final : public RunObserver {
public:
  /// No more tasks than this are kept.
  static constexpr size_t kMaxTasks = 20000;

  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;
  PageTimeline timeline() const;

private:
  using Clock = std::chrono::steady_clock;
  struct Task {
    const ObservedTask *task;
    Clock::time_point begin, end;
  };
  Clock::time_point &startOf(uint32_t stream);

  std::mutex lock_; // tasks come from several threads
  std::deque<Clock::time_point> starts_;
  std::vector<Task> tasks_; // of one step
  int64_t step_ = -1;
  bool cut_ = false;
};

struct RunContext;
struct PlannedRun;
struct ExecutedRun;

/// What a run compared, as JSON lists it, and where run and reference differ first.
struct RunVerdict {
  bool passed = true;
  Json compared = Json::array();
  std::string where;
};

/// Writes the page. Errors: OPC0707.
Status writeRunPage(RunContext &context, const PlannedRun &planned, const ExecutedRun &executed,
                    const RunVerdict &verdict);

} // namespace opc::cli
