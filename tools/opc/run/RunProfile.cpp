// --profile: times of tasks, their costs, and the two tables.
// SPDX-License-Identifier: Apache-2.0
#include "RunProfile.h"

#include "InProcessCommunicator.h"
#include "Measurement.h"
#include "NumberText.h"
#include "TaskCosts.h"
#include "TextTable.h"

#include <algorithm>
#include <numeric>

namespace opc::cli {

namespace {

constexpr size_t kShownOps = 30;

/// "12.3" for 12.3e9; "-" where there is nothing to say.
std::string gigaText(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? roundedText(amount / seconds / 1e9, 3) : "-";
}
std::string percentText(double share) { return roundedText(100 * share, share < 0.0995 ? 2 : 3) + " %"; }

} // namespace

Status RunProfile::open(std::string_view planFile, const Registry &registry, const std::vector<PortInfo> &inputs,
                        int64_t warmups) {
  warmups_ = warmups;
  OPC_ASSIGN_OR_RETURN(const plan::Plan plan, planAtSizes(planFile, inputs));
  const std::vector<TaskCost> costs = taskCosts(plan, registry);
  for (uint32_t i = 0; i < costs.size(); ++i) {
    const plan::Task &task = plan.task(static_cast<int>(i));
    tasks_.push_back(taskOf(task, costs[i], ""));
    if (task.graph_size() > 0) tasks_.back().cost = {}; // its graphs' tasks have theirs
    for (uint32_t g = 0; g < static_cast<uint32_t>(task.graph_size()); ++g) {
      const plan::Plan &graph = task.graph(static_cast<int>(g));
      const std::vector<TaskCost> own = taskCosts(graph, registry);
      for (uint32_t k = 0; k < own.size(); ++k)
        inner_[{i, g, k}] = taskOf(graph.task(static_cast<int>(k)), own[k], task.name());
    }
  }
  return Status::ok();
}

RunProfile::Task RunProfile::taskOf(const plan::Task &task, const TaskCost &cost, const std::string &in) {
  return {task.name(), task.op_type(), cost.cost, cost.isDouble, {}, in, 0};
}

std::vector<const RunProfile::Task *> RunProfile::all() const {
  std::vector<const Task *> list;
  auto next = inner_.begin();
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    list.push_back(&tasks_[i]);
    for (; next != inner_.end() && next->first[0] == i; ++next) list.push_back(&next->second);
  }
  return list;
}

void RunProfile::inner(const ObservedTask &task, int64_t, const std::vector<InnerTime> &times) {
  std::lock_guard<std::mutex> guard(lock_);
  now_[task.index] = times;
}

RunProfile::Clock::time_point &RunProfile::startOf(uint32_t stream) {
  std::lock_guard<std::mutex> guard(lock_);
  while (starts_.size() <= stream) starts_.emplace_back(); // a deque: what is there stays where it is
  return starts_[stream];
}

Status RunProfile::before(const ObservedTask &task, int64_t, TaskData &) {
  Clock::time_point &start = startOf(task.stream);
  start = Clock::now();
  return Status::ok();
}

Status RunProfile::after(const ObservedTask &task, int64_t step, TaskData &) {
  if (task.isView || step < warmups_ || task.index >= tasks_.size()) return Status::ok();
  const double seconds = std::chrono::duration<double>(Clock::now() - startOf(task.stream)).count();
  std::lock_guard<std::mutex> guard(lock_);
  const auto run = static_cast<size_t>(step - warmups_) + 1;
  if (run > runs_) {
    if (samples_ + tasks_.size() + inner_.size() > kMaxSamples && runs_ > 0) return Status::ok();
    runs_ = run;
    samples_ += tasks_.size() + inner_.size();
  }
  double own = seconds;
  for (const InnerTime &t : now_[task.index]) {
    const auto known = inner_.find({task.index, t.graph, t.index});
    if (known == inner_.end()) continue;
    Task &inner = known->second;
    inner.seconds.resize(run); // a branch that was not taken took nothing
    inner.seconds.back() += t.seconds;
    inner.turns += t.runs;
    own -= t.seconds;
  }
  now_.erase(task.index);
  tasks_[task.index].seconds.push_back(std::max(own, 0.0)); // threads that do not end at once have less
  return Status::ok();
}

Status RunProfile::measurePeak(const Registry &registry, int threads) {
  runtime::MeasureOptions options;
  options.threads = threads;
  const auto alone = runtime::inProcessCommunicators(1);
  OPC_ASSIGN_OR_RETURN(const runtime::MachineMeasurement machine,
                       runtime::measureMachine(*alone[0], registry, {}, options));
  for (const runtime::MeasuredOpTime &product : machine.products)
    if (product.seconds > 0) peak_.flops = std::max(peak_.flops, product.cost.flops / product.seconds);
  peak_.bandwidth = machine.copyBandwidth;
  return Status::ok();
}

RunProfile::Row RunProfile::rowOf(const std::vector<const Task *> &tasks, double total) const {
  Row row;
  row.ops = tasks.size();
  row.name = tasks[0]->name;
  row.type = tasks[0]->type;
  row.in = tasks[0]->in;
  row.seconds.resize(runs_);
  double computing = 0; // seconds at the peak
  for (const Task *t : tasks) {
    const double times =
        t->in.empty() ? 1 : static_cast<double>(t->turns) / static_cast<double>(std::max<size_t>(runs_, 1));
    row.cost.flops += t->cost.flops * times;
    row.cost.bytes += t->cost.bytes * times;
    // Half as many doubles as floats fit a vector.
    if (peak_.flops > 0) computing += t->cost.flops * times / peak_.flops * (t->isDouble ? 2 : 1);
    for (size_t i = 0; i < runs_ && i < t->seconds.size(); ++i) row.seconds[i] += t->seconds[i];
  }
  const double sum = std::accumulate(row.seconds.begin(), row.seconds.end(), 0.0);
  row.mean = runs_ ? sum / static_cast<double>(runs_) : 0;
  row.share = total > 0 ? row.mean / total : 0;
  std::sort(row.seconds.begin(), row.seconds.end());
  const double moving = peak_.bandwidth > 0 ? row.cost.bytes / peak_.bandwidth : 0;
  row.isLimitedByMemory = moving > computing;
  if (row.typical() > 0) row.peakShare = std::max(moving, computing) / row.typical();
  return row;
}

double RunProfile::totalSeconds() const {
  double total = 0;
  for (const Task *t : all()) total += std::accumulate(t->seconds.begin(), t->seconds.end(), 0.0);
  return runs_ ? total / static_cast<double>(runs_) : 0;
}

namespace {
template <class Rows> Rows slowestFirst(Rows rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const auto &a, const auto &b) { return a.mean > b.mean; });
  return rows;
}
} // namespace

std::vector<RunProfile::Row> RunProfile::opRows() const {
  const double total = totalSeconds();
  std::vector<Row> rows;
  for (const Task *t : all())
    if (!t->seconds.empty()) rows.push_back(rowOf({t}, total));
  return slowestFirst(std::move(rows));
}

std::vector<RunProfile::Row> RunProfile::typeRows() const {
  std::map<std::string, std::vector<const Task *>> byType;
  for (const Task *t : all())
    if (!t->seconds.empty()) byType[t->type].push_back(t);
  const double total = totalSeconds();
  std::vector<Row> rows;
  for (const auto &[type, tasks] : byType) rows.push_back(rowOf(tasks, total));
  return slowestFirst(std::move(rows));
}

std::string RunProfile::text(size_t width) const {
  const bool hasPeak = peak_.flops > 0;
  const auto cells = [&](const Row &r, std::vector<std::string> head) {
    for (double percent : {50.0, 90.0, 99.0}) head.push_back(secondsText(percentileOf(r.seconds, percent)));
    head.push_back(percentText(r.share));
    head.push_back(gigaText(r.cost.flops, r.typical()));
    head.push_back(gigaText(r.cost.bytes, r.typical()));
    if (hasPeak)
      head.push_back(r.peakShare > 0 ? percentText(r.peakShare) + (r.isLimitedByMemory ? " memory" : " compute") : "-");
    return head;
  };
  const std::vector<Row> ops = opRows(), types = typeRows();
  std::vector<std::vector<std::string>> byOp = {{"OP", "KIND", "P50", "P90", "P99", "SHARE", "GFLOP/S", "GB/S"}};
  for (size_t i = 0; i < ops.size() && i < kShownOps; ++i)
    byOp.push_back(cells(ops[i], {ops[i].name + (ops[i].in.empty() ? "" : " in " + ops[i].in), ops[i].type}));
  std::vector<std::vector<std::string>> byType = {{"KIND", "OPS", "P50", "P90", "P99", "SHARE", "GFLOP/S", "GB/S"}};
  if (hasPeak) byOp[0].emplace_back("OF PEAK"), byType[0].emplace_back("OF PEAK");
  for (const Row &r : types) byType.push_back(cells(r, {r.type, countText(r.ops)}));
  std::string text = "profile of " + countText(runs_, "run") + ": " + secondsText(totalSeconds()) + " in ops";
  if (hasPeak)
    text += "; measured peak " + roundedText(peak_.flops / 1e9, 3) + " GFLOP/s (f32 products), " +
            roundedText(peak_.bandwidth / 1e9, 3) + " GB/s (copies)";
  text += "\n" + textTable(byOp, width);
  if (ops.size() > kShownOps) text += "... and " + countText(ops.size() - kShownOps) + " more (--json has all)\n";
  return text + "\n" + textTable(byType, width);
}

Json RunProfile::json() const {
  const auto list = [](const std::vector<Row> &rows, bool byType) {
    Json all = Json::array();
    for (const Row &r : rows) {
      Json j = {{"type", r.type}};
      if (byType)
        j["ops"] = r.ops;
      else
        j["op"] = r.name;
      if (!byType && !r.in.empty()) j["in"] = r.in;
      j["mean_s"] = r.mean;
      j["p50_s"] = percentileOf(r.seconds, 50);
      j["p90_s"] = percentileOf(r.seconds, 90);
      j["p99_s"] = percentileOf(r.seconds, 99);
      j["share"] = r.share;
      j["flops"] = r.cost.flops;
      j["bytes"] = r.cost.bytes;
      j["peak_share"] = r.peakShare > 0 ? Json(r.peakShare) : Json(nullptr);
      j["limit"] = r.peakShare > 0 ? Json(r.isLimitedByMemory ? "memory" : "compute") : Json(nullptr);
      all.push_back(std::move(j));
    }
    return all;
  };
  return {
      {"runs", runs_},
      {"peak", peak_.flops > 0 ? Json{{"flops_per_s", peak_.flops}, {"bytes_per_s", peak_.bandwidth}} : Json(nullptr)},
      {"ops", list(opRows(), false)},
      {"types", list(typeRows(), true)}};
}

} // namespace opc::cli
