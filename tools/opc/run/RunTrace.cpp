// --trace: the compiler's phases and the tasks of all ranks as trace events.
// SPDX-License-Identifier: Apache-2.0
#include "RunTrace.h"

#include "Codegen.h"
#include "TaskCosts.h"
#include "TextParts.h"

#include <algorithm>
#include <set>

namespace opc::cli {

double RunTrace::now() const {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - origin_).count();
}

void RunTrace::phases(const Pipeline &pipeline, double start) {
  for (const PhaseFacts &s : pipeline.stats()) {
    span("phase " + s.name, "phase", start + s.start * 1e6, s.seconds * 1e6, {{"ops", s.ops}, {"does", s.doc}});
    for (const PassFacts &p : s.passes) span("pass " + p.name, "pass", start + p.start * 1e6, p.seconds * 1e6);
  }
}

Status RunTrace::plan(std::string_view planFile, const Registry &registry, const Session &session) {
  OPC_ASSIGN_OR_RETURN(const plan::Plan plan, planAtSizes(planFile, session.interface().inputs));
  ranks_ = session.ranks();
  if (session.hasPeers()) mostTasks_ = kMaxTasks / static_cast<size_t>(ranks_);
  const int64_t first = session.rank(), end = session.hasPeers() ? first + 1 : ranks_;
  for (int64_t rank = first; rank < end; ++rank) {
    const size_t part = plan.part_size() ? plan.part_of_rank(static_cast<int>(rank)) : 0;
    partOfRank_[rank] = part;
    if (parts_.count(part)) continue;
    OPC_ASSIGN_OR_RETURN(PlanDescription description, describePlan(planFile, registry, rank));
    PartFacts &facts = parts_[part];
    facts.live = std::move(description.live);
    for (const TaskCost &cost : taskCosts(plan, registry, rank)) facts.flops.push_back(cost.cost.flops);
  }
  return Status::ok();
}

double &RunTrace::startOf(const ObservedTask &task) {
  std::lock_guard<std::mutex> guard(lock_);
  return starts_[{task.rank, task.stream}]; // which stays where it is
}

Status RunTrace::before(const ObservedTask &task, int64_t, TaskData &) {
  double &start = startOf(task);
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
  const double end = now(), start = startOf(task);
  std::lock_guard<std::mutex> guard(lock_);
  if (tasks_.size() < mostTasks_)
    tasks_.push_back({&task, step, start, end - start});
  else
    dropped_ = true;
  return Status::ok();
}

const RunTrace::PartFacts *RunTrace::factsOf(int64_t rank) const {
  const auto part = partOfRank_.find(rank);
  return part == partOfRank_.end() ? nullptr : &parts_.at(part->second);
}

std::string RunTrace::argsOf(const ObservedTask &task) const {
  Json inputs = Json::array(), outputs = Json::array();
  int64_t bytes = 0;
  auto add = [&](const ObservedTensor &tensor, Json *list) {
    list->push_back(tensor.name + " " + tensor.desc.toString());
    bytes += tensor.desc.shape().elem_cnt() * static_cast<int64_t>(GetSizeOfDataType(tensor.desc.data_type()));
  };
  for (const ObservedTensor &in : task.inputs) add(in, &inputs);
  for (const ObservedTensor &out : task.outputs) add(out, &outputs);
  const PartFacts *facts = factsOf(task.rank);
  Json args = {{"op", task.type},
               {"shape", task.outputs.empty() ? "" : task.outputs[0].desc.toString()},
               {"inputs", std::move(inputs)},
               {"outputs", std::move(outputs)},
               {"bytes", bytes},
               {"flops", facts && task.index < facts->flops.size() ? facts->flops[task.index] : 0.0},
               {"src", task.where.text()}};
  if (!task.ops.empty()) args["ops"] = task.ops;
  if (task.isTransfer) args["sent"] = task.bytesSent;
  return jsonMembers(args);
}

void RunTrace::addNames(TraceEvents *events, int64_t process, int64_t processes) const {
  const std::string ofRank = processes > 1 ? concat("rank ", process, ": ") : "";
  if (process == 0) events->nameProcess(0, "opc");
  events->nameThread({0, process}, ofRank + "command");
  std::map<int64_t, std::map<uint32_t, std::string>> streams; // by rank
  for (const Task &t : tasks_) streams[t.task->rank].emplace(t.task->stream, t.task->device);
  for (const auto &[rank, named] : streams) {
    std::string device = named.begin()->second;
    for (const auto &[stream, other] : named)
      if (other != "comm") device = other;
    events->nameProcess(rank + 1, ranks_ > 1 ? concat("rank ", rank, ": ", device) : device);
    for (const auto &[stream, of] : named)
      events->nameThread({rank + 1, stream}, concat("stream ", stream, of == device ? "" : ": " + of));
  }
}

void RunTrace::addCode(TraceEvents *events, TraceTrack track, double shift) const {
  const auto compiler = std::dynamic_pointer_cast<RegionCodegen>(regionCompiler());
  for (const CodegenEvent &e : compiler ? compiler->events() : std::vector<CodegenEvent>()) {
    const double start = std::chrono::duration<double, std::micro>(e.start - origin_).count();
    Json args = {{"ops", e.ops}, {"code_bytes", e.bytes}, {"from_disk", e.isCached}};
    if (!e.reason.empty()) args["none"] = e.reason;
    events->span("code for " + counted(e.ops.size(), "op"), "codegen", track, start + shift, e.seconds * 1e6,
                 jsonMembers(args));
  }
}

void RunTrace::addTasks(TraceEvents *events, double shift) const {
  std::map<const ObservedTask *, std::string> args; // but for the step
  for (const Task &t : tasks_) {
    std::string &known = args[t.task];
    if (known.empty()) known = argsOf(*t.task);
    events->span(t.task->name, "task", t.track(), t.start + shift, t.duration, concat(known, ",\"step\":", t.step));
  }
}

void RunTrace::addArrows(TraceEvents *events, int64_t process, double shift) const {
  using Key = std::pair<int64_t, std::string>;           // step and tensor
  std::map<int64_t, std::map<Key, const Task *>> makers; // by rank
  const size_t count = std::min(tasks_.size(), kMaxDetailed);
  for (size_t i = 0; i < count; ++i)
    for (const ObservedTensor &out : tasks_[i].task->outputs)
      makers[tasks_[i].task->rank][{tasks_[i].step, out.name}] = &tasks_[i];
  uint64_t id = static_cast<uint64_t>(process) << 32; // other processes have others
  for (size_t i = 0; i < count; ++i) {
    const Task &reader = tasks_[i];
    const std::map<Key, const Task *> &made = makers[reader.task->rank];
    for (const ObservedTensor &in : reader.task->inputs) {
      std::string name = in.name;
      for (auto view = views_.find(name); view != views_.end() && !made.count({reader.step, name});
           view = views_.find(name))
        name = view->second;
      const auto maker = made.find({reader.step, name});
      if (maker == made.end() || maker->second == &reader) continue;
      const Task &from = *maker->second;
      // An arrow leaves the slice in which it begins: its end is in no slice any more.
      events->arrow(name, ++id, from.track(), from.start + from.duration / 2 + shift, reader.track(),
                    reader.start + shift);
    }
  }
}

void RunTrace::addCounters(TraceEvents *events, double shift) const {
  std::map<int64_t, int64_t> sent;                          // by rank
  std::map<std::pair<int64_t, int64_t>, const Task *> last; // by rank and step
  const size_t count = std::min(tasks_.size(), kMaxDetailed);
  for (size_t i = 0; i < count; ++i) {
    const Task &t = tasks_[i];
    const int64_t rank = t.task->rank;
    if (const PartFacts *facts = factsOf(rank); facts && t.task->index < facts->live.size()) {
      events->counter("live bytes", rank + 1, t.start + shift, "activations",
                      static_cast<int64_t>(facts->live[t.task->index]));
      const Task *&latest = last[{rank, t.step}];
      if (!latest || latest->start + latest->duration < t.start + t.duration) latest = &t;
    }
    if (!t.task->isTransfer) continue;
    if (!sent.count(rank)) events->counter("communication bytes", rank + 1, t.start + shift, "sent", 0);
    events->counter("communication bytes", rank + 1, t.start + t.duration + shift, "sent",
                    sent[rank] += t.task->bytesSent);
  }
  // Between two steps what the caller fetches is alive.
  for (const auto &[key, t] : last)
    events->counter("live bytes", key.first + 1, t->start + t->duration + shift, "activations",
                    static_cast<int64_t>(factsOf(key.first)->live.back()));
}

Status RunTrace::addEvents(const TraceEvents::Sink &sink, int64_t process, int64_t processes, double shift) const {
  TraceEvents events(sink);
  addNames(&events, process, processes);
  for (const Span &s : spans_)
    events.span(s.name, s.category, {0, process}, s.start + shift, s.duration, jsonMembers(s.args));
  addCode(&events, {0, process}, shift);
  addTasks(&events, shift);
  addArrows(&events, process, shift);
  addCounters(&events, shift);
  return events.finish();
}

Status RunTrace::write(const std::string &path) const {
  return writeTraceFile(path, [this](const TraceEvents::Sink &sink) { return addEvents(sink, 0, 1, 0); });
}

Status RunTrace::writeOfAll(RankJob &job, const std::string &path) const {
  if (job.processes() == 1) return write(path);
  const int64_t mine = std::chrono::duration_cast<std::chrono::nanoseconds>(wallOrigin_.time_since_epoch()).count();
  OPC_ASSIGN_OR_RETURN(const std::vector<int64_t> origins, job.tell(mine));
  const int64_t first = *std::min_element(origins.begin(), origins.end());
  const auto addMine = [&](const TraceEvents::Sink &sink) {
    return addEvents(sink, job.rank(), job.processes(), static_cast<double>(mine - first) / 1000);
  };
  std::string text;
  if (!job.isFirst())
    OPC_RETURN_IF_ERROR(addMine([&](std::string_view piece) {
      text += piece;
      return Status::ok();
    }));
  OPC_ASSIGN_OR_RETURN(const std::vector<std::string> texts, job.gather(text));
  if (!job.isFirst()) return Status::ok();
  return writeTraceFile(path, [&](const TraceEvents::Sink &sink) {
    Status status = addMine(sink);
    for (const std::string &other : texts)
      if (status && !other.empty()) status = sink(other);
    return status;
  });
}

} // namespace opc::cli
