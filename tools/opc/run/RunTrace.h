// --trace: what opc did and when, as Chrome trace events (chrome://tracing, Perfetto).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "Pipeline.h"
#include "RunRanks.h"
#include "Session.h"
#include "TraceEvents.h"

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

/// Collects spans and tasks. Process 0 is the command (phases with their passes, loading, feeding, writing) with a
/// thread for each process of the job; then comes a process for each rank, with a thread for each of its streams. Times
/// are microseconds after the trace was made; of a job of processes, after the first of their traces was made.
class RunTrace final : public RunObserver {
public:
  /// No more task events than this are kept, of all ranks together; a note says so.
  static constexpr size_t kMaxTasks = 1000000;
  /// Counters and arrows of so many tasks: the first steps show the shape.
  static constexpr size_t kMaxDetailed = 100000;

  double now() const;
  /// A span of the command from `start` (by now()) to now.
  void span(const std::string &name, double start) { span(name, "opc", start, now() - start); }
  /// The phases and passes of a pipeline that was made at `start`.
  void phases(const Pipeline &pipeline, double start);

  /// What the tasks of the ranks of this process cost, and what they keep alive. Errors: those of reading the plan.
  Status plan(std::string_view planFile, const Registry &registry, const Session &session);

  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;

  /// Writes the events of this process. The session whose tasks were seen must still be there. Errors: OPC0707.
  Status write(const std::string &path) const;
  /// A call of the whole job: the events of all processes, which the first one writes.
  Status writeOfAll(RankJob &job, const std::string &path) const;
  bool truncated() const { return dropped_; }

private:
  struct Task {
    const ObservedTask *task;
    int64_t step;
    double start, duration;
    TraceTrack track() const { return {task->rank + 1, task->stream}; }
  };
  struct Span {
    std::string name;
    const char *category;
    double start, duration;
    Json args;
  };
  struct PartFacts {
    std::vector<uint64_t> live; // by task: bytes of activations and workspaces
    std::vector<double> flops;
  };
  void span(const std::string &name, const char *category, double start, double duration, Json args = Json::object()) {
    spans_.push_back({name, category, start, duration, std::move(args)});
  }
  double &startOf(const ObservedTask &task);
  const PartFacts *factsOf(int64_t rank) const;
  std::string argsOf(const ObservedTask &task) const;
  Status addEvents(const TraceEvents::Sink &sink, int64_t process, int64_t processes, double shift) const;
  void addNames(TraceEvents *events, int64_t process, int64_t processes) const;
  /// What this process has compiled for regions.
  void addCode(TraceEvents *events, TraceTrack track, double shift) const;
  void addTasks(TraceEvents *events, double shift) const;
  /// Arrows from each task to those that read what it has made.
  void addArrows(TraceEvents *events, int64_t process, double shift) const;
  void addCounters(TraceEvents *events, double shift) const;

  const std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  const std::chrono::system_clock::time_point wallOrigin_ = std::chrono::system_clock::now(); // for other processes
  std::mutex lock_;                                       // tasks come from several threads
  std::map<std::pair<int64_t, uint32_t>, double> starts_; // by rank and stream
  std::deque<Task> tasks_;
  std::vector<Span> spans_;
  std::map<std::string, std::string> views_; // by name of a view's result: what it looks at
  std::map<int64_t, size_t> partOfRank_;     // of the ranks of this process
  std::map<size_t, PartFacts> parts_;
  int64_t ranks_ = 1;
  size_t mostTasks_ = kMaxTasks; // of this process
  bool dropped_ = false;
};

} // namespace opc::cli
