// --report: the page of `opc report` for the graph that ran, with the timeline that was measured and what came out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "JsonOutput.h"
#include "PageTimeline.h"
#include "RunRanks.h"
#include "Session.h"

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace opc::cli {

/// When the tasks of the last run began and ended, on all ranks.
class RunTimeline final : public RunObserver {
public:
  /// No more tasks of a process than this are kept.
  static constexpr size_t kMaxTasks = 20000;

  /// A run begins: what was seen of the one before is gone.
  void begin();
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;
  /// A call of the whole job: the first process gets the timeline of all ranks, the others that of nothing.
  Result<PageTimeline> timeline(const RankJob &job) const;

private:
  using Clock = std::chrono::steady_clock;
  struct Task {
    const ObservedTask *task;
    Clock::time_point begin, end;
  };
  /// Rank, stream, name, begin and end in nanoseconds of the wall's clock, whether it is between ranks; and whether
  /// some were left out.
  Json json() const;

  const Clock::time_point origin_ = Clock::now();
  const std::chrono::system_clock::time_point wallOrigin_ = std::chrono::system_clock::now(); // for other processes
  std::mutex lock_;                                                  // tasks come from several threads
  std::map<std::pair<int64_t, uint32_t>, Clock::time_point> starts_; // by rank and stream
  std::vector<Task> tasks_;
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

/// Writes the page; a call of the whole job, of which the first process writes. Errors: OPC0707.
Status writeRunPage(RunContext &context, const PlannedRun &planned, const ExecutedRun &executed,
                    const RunVerdict &verdict, const std::vector<RankStats> &ranks);

} // namespace opc::cli
