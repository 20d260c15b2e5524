// --trace: Chrome trace events of the compiler's phases and of the tasks.
// SPDX-License-Identifier: Apache-2.0
#include "RunTrace.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace opc::cli {

namespace {
/// Microseconds with whole nanoseconds: more digits would be noise.
double micro(double us) { return std::round(us * 1000) / 1000; }
} // namespace

double RunTrace::now() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - origin_).count();
}

void RunTrace::span(const std::string &name, double start, Json args) {
  spans_.push_back({name, start, now() - start, std::move(args)});
}

void RunTrace::phases(const Pipeline &pipeline, double start) {
  for (const PhaseFacts &s : pipeline.stats())
    spans_.push_back(
        {"phase " + s.name, start + s.start * 1e6, s.seconds * 1e6, Json{{"ops", s.ops}, {"does", s.doc}}});
}

void RunTrace::memory(const PlanDescription &plan) {
  std::vector<int64_t> change(plan.tasks.size() + 2);
  for (const PlanDescription::Buffer &b : plan.buffers) {
    if (b.kind != "activation" && b.kind != "workspace") continue;
    change[b.firstTask] += static_cast<int64_t>(b.bytes);
    change[b.lastTask + 1] -= static_cast<int64_t>(b.bytes);
  }
  int64_t live = 0;
  for (size_t i = 0; i < plan.tasks.size(); ++i) live_.push_back(static_cast<uint64_t>(live += change[i]));
}

double &RunTrace::startOf(uint32_t stream) {
  std::lock_guard<std::mutex> guard(lock_);
  while (starts_.size() <= stream) starts_.push_back(0); // a deque: what is there stays where it is
  return starts_[stream];
}

Status RunTrace::before(const ObservedTask &task, int64_t, TaskData &) {
  double &start = startOf(task.stream);
  start = now();
  return Status::ok();
}

Status RunTrace::after(const ObservedTask &task, int64_t step, TaskData &) {
  if (task.isView) { // takes no time
    std::lock_guard<std::mutex> guard(lock_);
    if (!task.inputs.empty())
      for (const ObservedTensor &out : task.outputs) views_.emplace(out.name, task.inputs[0].name);
    return Status::ok();
  }
  const double end = now(), start = startOf(task.stream);
  std::lock_guard<std::mutex> guard(lock_);
  if (tasks_.size() < kMaxTasks)
    tasks_.push_back({&task, step, start, end - start});
  else
    dropped_ = true;
  return Status::ok();
}

void RunTrace::addFlows(Json *events) const {
  std::map<std::pair<int64_t, std::string>, const Task *> makers; // by step and tensor
  const size_t count = std::min(tasks_.size(), kMaxDetailed);
  for (size_t i = 0; i < count; ++i)
    for (const ObservedTensor &out : tasks_[i].task->outputs) makers[{tasks_[i].step, out.name}] = &tasks_[i];
  uint64_t id = 0;
  for (size_t i = 0; i < count; ++i) {
    const Task &reader = tasks_[i];
    for (const ObservedTensor &in : reader.task->inputs) {
      std::string name = in.name;
      for (auto view = views_.find(name); view != views_.end() && !makers.count({reader.step, name});
           view = views_.find(name))
        name = view->second;
      const auto maker = makers.find({reader.step, name});
      if (maker == makers.end() || maker->second == &reader) continue;
      const Task &from = *maker->second;
      ++id;
      // An arrow leaves the slice in which it begins: its end is in no slice any more.
      events->push_back({{"name", name},
                         {"cat", "tensor"},
                         {"ph", "s"},
                         {"id", id},
                         {"ts", micro(from.start + from.duration / 2)},
                         {"pid", 1},
                         {"tid", from.task->stream}});
      events->push_back({{"name", name},
                         {"cat", "tensor"},
                         {"ph", "f"},
                         {"bp", "e"},
                         {"id", id},
                         {"ts", micro(reader.start)},
                         {"pid", 1},
                         {"tid", reader.task->stream}});
    }
  }
}

Status RunTrace::write(const std::string &path) const {
  Json events = Json::array();
  auto named = [&](const char *what, int pid, uint32_t tid, const std::string &name) {
    events.push_back({{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}});
  };
  named("process_name", 0, 0, "opc");
  named("thread_name", 0, 0, "command");
  std::map<uint32_t, std::string> streams;
  for (const Task &t : tasks_) streams.emplace(t.task->stream, t.task->device);
  if (!streams.empty()) named("process_name", 1, 0, streams.begin()->second);
  for (const auto &s : streams) named("thread_name", 1, s.first, "stream " + std::to_string(s.first));
  for (const Span &s : spans_)
    events.push_back({{"name", s.name},
                      {"cat", "opc"},
                      {"ph", "X"},
                      {"ts", micro(s.start)},
                      {"dur", micro(s.duration)},
                      {"pid", 0},
                      {"tid", 0},
                      {"args", s.args}});
  for (const Task &t : tasks_) {
    Json inputs = Json::array(), outputs = Json::array();
    int64_t bytes = 0;
    auto add = [&](const ObservedTensor &tensor, Json *list) {
      list->push_back(tensor.name + " " + tensor.desc.toString());
      bytes += tensor.desc.shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(tensor.desc.data_type()));
    };
    for (const ObservedTensor &in : t.task->inputs) add(in, &inputs);
    for (const ObservedTensor &out : t.task->outputs) add(out, &outputs);
    events.push_back({{"name", t.task->name},
                      {"cat", "task"},
                      {"ph", "X"},
                      {"ts", micro(t.start)},
                      {"dur", micro(t.duration)},
                      {"pid", 1},
                      {"tid", t.task->stream},
                      {"args",
                       {{"op", t.task->type},
                        {"shape", t.task->outputs.empty() ? "" : t.task->outputs[0].desc.toString()},
                        {"inputs", std::move(inputs)},
                        {"outputs", std::move(outputs)},
                        {"bytes", bytes},
                        {"step", t.step},
                        {"src", t.task->where.text()}}}});
  }
  addFlows(&events);
  for (size_t i = 0; i < tasks_.size() && i < kMaxDetailed; ++i)
    if (tasks_[i].task->index < live_.size())
      events.push_back({{"name", "live bytes"},
                        {"ph", "C"},
                        {"ts", micro(tasks_[i].start)},
                        {"pid", 1},
                        {"args", {{"activations", live_[tasks_[i].task->index]}}}});
  const Json document = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  // One event a line: a trace of a million tasks is read by machines, and by people with a pager.
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const Json &list = document["traceEvents"];
  for (size_t i = 0; i < list.size(); ++i)
    text += list[i].dump(-1, ' ', false, Json::error_handler_t::replace) + (i + 1 < list.size() ? ",\n" : "\n");
  return writeFileAtomically(path, text + "]}\n");
}

} // namespace opc::cli
