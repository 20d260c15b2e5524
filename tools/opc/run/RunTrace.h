// --trace: what opc did and when, as Chrome trace events (chrome://tracing, Perfetto).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "Pipeline.h"
#include "Session.h"

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace opc::cli {

/// Collects spans and tasks. Process 0 is the command (phases, loading, feeding, writing), process 1 the device with
/// one thread for each stream. Times are microseconds after the trace was made.
class RunTrace final : public RunObserver {
public:
  /// No more task events than this are kept; a note says so.
  static constexpr size_t kMaxTasks = 1000000;
  /// Counters and arrows of so many tasks: the first steps show the shape.
  static constexpr size_t kMaxDetailed = 100000;

  double now() const;
  /// A span of the command from `start` (by now()) to now.
  void span(const std::string &name, double start, Json args = Json::object());
  /// The phases of a pipeline that was made at `start`.
  void phases(const Pipeline &pipeline, double start);

  /// What is alive at each task, for the counter "live bytes".
  void memory(const PlanDescription &plan);

  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;

  /// Writes the events. Errors: OPC0707.
  Status write(const std::string &path) const;
  bool truncated() const { return dropped_; }

private:
  struct Task {
    const ObservedTask *task;
    int64_t step;
    double start, duration;
  };
  struct Span {
    std::string name;
    double start, duration;
    Json args;
  };
  double &startOf(uint32_t stream);
  /// Arrows from each task to those that read what it has made.
  void addFlows(Json *events) const;

  const std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  std::mutex lock_; // tasks come from several threads
  std::deque<double> starts_;
  std::deque<Task> tasks_;
  std::vector<Span> spans_;
  std::map<std::string, std::string> views_; // by name of a view's result: what it looks at
  std::vector<uint64_t> live_;               // by task: bytes of activations and workspaces
  bool dropped_ = false;
};

} // namespace opc::cli
