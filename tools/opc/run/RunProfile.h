// --profile: where the time of a run goes, by op and by kind of op, against what this machine can do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "OpCost.h"
#include "RunTimes.h"
#include "Session.h"
#include "TaskCosts.h"

#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

/// Measured rates of this machine at the run's number of threads.
struct MachinePeak {
  double flops = 0;     // a second, of f32 products
  double bandwidth = 0; // bytes a second of a large copy
};

/// Times of the tasks of one rank, from the first measured run on.
class RunProfile final : public RunObserver {
public:
  /// More samples than this are not kept; the table says of how many runs it is.
  static constexpr size_t kMaxSamples = 4000000;

  /// `warmups`: the steps that are left out. Takes the costs of the plan's tasks, for the sizes that the inputs have.
  /// Errors: those of reading the plan.
  Status open(std::string_view planFile, const Registry &registry, const std::vector<PortInfo> &inputs,
              int64_t warmups);
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  bool wantsInnerTimes() const override { return true; }
  void inner(const ObservedTask &task, int64_t step, const std::vector<InnerTime> &times) override;
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;

  /// Measures what the machine can do, some tenths of a second. After the runs: it would warm or cool them.
  Status measurePeak(const Registry &registry, int threads);

  /// The tables, for `width` columns (0: any).
  std::string text(size_t width) const;
  Json json() const;

private:
  struct Task {
    std::string name, type;
    OpCost cost;
    bool isDouble = false;
    std::vector<double> seconds; // by run; of one with graphs without what their tasks take
    std::string in;              // of a task of a graph: the task that has the graph
    int64_t turns = 0;           // and how often it has run
  };
  /// A line of a table: an op, or all ops of a kind.
  struct Row {
    std::string name, type, in;
    size_t ops = 1;
    OpCost cost;
    double mean = 0, share = 0;  // seconds of a run, part of all
    std::vector<double> seconds; // by run, sorted
    double peakShare = 0;        // of the rate that limits it; 0: not known
    bool isLimitedByMemory = false;
    /// What rates are taken from: the median, which one slow run among many leaves as it is.
    double typical() const { return percentileOf(seconds, 50); }
  };
  Row rowOf(const std::vector<const Task *> &tasks, double total) const;
  std::vector<Row> opRows() const;
  std::vector<Row> typeRows() const;
  double totalSeconds() const;

  static Task taskOf(const plan::Task &task, const TaskCost &cost, const std::string &in);
  /// Each task, and behind it those of its graphs.
  std::vector<const Task *> all() const;

  using Clock = std::chrono::steady_clock;
  Clock::time_point &startOf(uint32_t stream);

  std::mutex lock_; // tasks come from several threads
  std::deque<Clock::time_point> starts_;
  std::vector<Task> tasks_;
  std::map<std::array<uint32_t, 3>, Task> inner_;  // by task, graph of it, task of that
  std::map<uint32_t, std::vector<InnerTime>> now_; // by task: of the run that ends
  MachinePeak peak_;
  int64_t warmups_ = 0;
  size_t runs_ = 0, samples_ = 0;
};

} // namespace opc::cli
