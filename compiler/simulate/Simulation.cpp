// From a plan to an event simulation and back to numbers about a step.
// SPDX-License-Identifier: Apache-2.0
#include "Simulation.h"
#include "PlanOps.h"

#include "EventSimulation.h"
#include "PlanPrices.h"
#include "RankClasses.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

namespace opc::simulate {
namespace {

/// A boxing task that ranks meet for, and the k-th of its name in its part: names are those of the logical graph.
struct PartBoxing {
  uint32_t task = 0;
  BoxingTask what;
  std::string name;
  double seconds = 0;
};

struct Part {
  const plan::Plan *plan = nullptr;
  EventProgram program;
  std::vector<PartBoxing> boxings; // those that travel
};

/// The memory of a part and of the graphs in its ops.
uint64_t arenaBytesOf(const plan::Plan &part) {
  uint64_t bytes = 0;
  for (const plan::Arena &a : part.arena()) bytes += a.bytes();
  for (const plan::Task &t : part.task())
    for (const plan::Plan &graph : t.graph()) bytes += arenaBytesOf(graph);
  return bytes;
}

class PlanSimulation {
public:
  PlanSimulation(const plan::Plan &plan, const Registry &registry, const ClusterDescription &cluster,
                 const SimulationOptions &options)
      : plan_(plan), cluster_(cluster), options_(options), prices_(plan, registry, cluster) {}

  Result<SimulationReport> run() {
    OPC_RETURN_IF_ERROR(runEvents());
    fillReport();
    countBytes();
    return std::move(report_);
  }

  /// The same without times, on as few micro-batches as show whether all of them come to their end.
  Status finishes() {
    isTimed_ = false;
    return runEvents();
  }

private:
  Status runEvents() {
    OPC_RETURN_IF_ERROR(prices_.readPlacements());
    OPC_RETURN_IF_ERROR(readParts());
    if (!isTimed_) leaveOutEqualSteps();
    std::vector<std::vector<GroupKind>> used;
    for (const Part &p : parts_) {
      std::set<GroupKind> kinds;
      for (const PartBoxing &b : p.boxings) kinds.insert(kindOf(b.what));
      used.emplace_back(kinds.begin(), kinds.end());
    }
    classes_ = std::make_unique<RankClasses>(partOfRank_, prices_.placements(), used);
    OPC_RETURN_IF_ERROR(addDevices());
    if (options_.trace) events_.record(options_.maxEvents);
    if (Status s = events_.run(steps_); !s.isOk()) {
      const auto [c, task] = events_.stuck();
      return Status(s.code(), s.id(), s.message())
          .withContext("task " + partOf(c).plan->task(static_cast<int>(task)).name() + " on rank " +
                       std::to_string(classes_->firstRank(c)));
    }
    return Status::ok();
  }

  /// Tasks wait for steps that are as far away as lags are, and so streams that have done some more steps than that go
  /// on for ever. What runs at the last step alone does so at the last of these.
  void leaveOutEqualSteps() {
    int64_t lag = 0;
    for (const Part &p : parts_)
      for (const EventTask &t : p.program.tasks) lag = std::max(lag, static_cast<int64_t>(t.lag));
    const int64_t all = steps_;
    steps_ = std::min(all, 4 * (lag + 2));
    for (Part &p : parts_)
      for (EventTask &t : p.program.tasks)
        if (t.stride == all) t.stride = static_cast<uint32_t>(steps_);
  }

  static GroupKind kindOf(const BoxingTask &t) {
    const BoxingStep &step = t.ops[0].step;
    return {t.source, t.target, step.kind == BoxingKind::kExchange ? -1 : step.meshDim};
  }
  const Part &partOf(uint32_t c) const { return parts_[partOfRank_[static_cast<size_t>(classes_->firstRank(c))]]; }

  Status bad(const std::string &message) const {
    return Status(StatusCode::kInvalidGraph, "OPC0745", "the plan cannot be simulated: " + message)
        .withHelp("compile the graph again");
  }

  Status readParts() {
    steps_ = std::max<int64_t>(1, plan_.micro_batches());
    constexpr int64_t kMaxMicroBatches = 1 << 16;
    if (steps_ > kMaxMicroBatches) return bad(std::to_string(steps_) + " micro-batches");
    if (plan_.part_size() == 0) {
      parts_.resize(1);
      parts_[0].plan = &plan_;
      partOfRank_ = {0};
    } else {
      parts_.resize(static_cast<size_t>(plan_.part_size()));
      for (int i = 0; i < plan_.part_size(); ++i) parts_[static_cast<size_t>(i)].plan = &plan_.part(i);
      for (uint32_t p : plan_.part_of_rank()) {
        if (p >= parts_.size())
          return bad("a rank has part " + std::to_string(p) + " of " + std::to_string(parts_.size()));
        partOfRank_.push_back(p);
      }
      if (partOfRank_.empty()) return bad("it has parts and no ranks");
    }
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      OPC_RETURN_IF_ERROR(prices_.check(*parts_[i].plan, i));
      OPC_RETURN_IF_ERROR(readTasks(&parts_[i]));
      addWaits(&parts_[i]);
    }
    return Status::ok();
  }

  Status readTasks(Part *part) {
    const plan::Plan &p = *part->plan;
    part->program.tasks.resize(static_cast<size_t>(p.task_size()));
    std::map<std::string, int> names;
    for (const plan::Stream &s : p.stream()) {
      part->program.streams.emplace_back(s.task().begin(), s.task().end());
      for (uint32_t index : s.task()) {
        const plan::Task &t = p.task(static_cast<int>(index));
        EventTask &task = part->program.tasks[index];
        task.stride = std::max(1u, t.stride());
        task.lag = t.lag();
        if (static_cast<int64_t>(task.lag) > steps_ + kMaxLag)
          return bad("task " + t.name() + " lags by " + std::to_string(task.lag) + " steps");
        if (isPrepared(p, t)) continue; // before the first step
        if (!t.has_boxing()) {
          if (!isTimed_) continue;
          OPC_ASSIGN_OR_RETURN(const double seconds, prices_.computeSeconds(p, t));
          task.seconds = seconds;
          continue;
        }
        OPC_ASSIGN_OR_RETURN(BoxingTask what, prices_.boxingTask(p, t));
        if (isTimed_) task.seconds = boxingSeconds(t, what);
        task.communicates = what.travels;
        if (what.travels)
          part->boxings.push_back(
              {index, std::move(what), t.name() + '#' + std::to_string(names[t.name()]++), task.seconds});
      }
    }
    return Status::ok();
  }

  /// Layers repeat: equal boxings are priced once.
  double boxingSeconds(const plan::Task &t, const BoxingTask &what) {
    std::string key = t.boxing().SerializeAsString();
    for (const BoxingOp &op : what.ops) key += static_cast<char>(op.type);
    const auto [it, isNew] = boxingPrices_.emplace(std::move(key), 0);
    if (isNew) it->second = prices_.seconds(what);
    return it->second;
  }

  /// Between streams of a device: a reader waits for the maker of its tensor, and the first writer of a register for
  /// its last readers, as many steps ago as the register has slots (docs/plan-format.md, Waiting).
  void addWaits(Part *part) {
    const plan::Plan &p = *part->plan;
    constexpr uint32_t kNobody = UINT32_MAX;
    std::vector<uint32_t> streamOf(static_cast<size_t>(p.task_size()), kNobody),
        maker(static_cast<size_t>(p.tensor_size()), kNobody);
    for (uint32_t s = 0; s < part->program.streams.size(); ++s)
      for (uint32_t t : part->program.streams[s]) {
        streamOf[t] = s;
        for (const plan::Argument &a : p.task(static_cast<int>(t)).output())
          for (uint32_t x : a.tensor()) maker[x] = t;
      }
    std::vector<std::map<uint32_t, uint32_t>> lastReader(static_cast<size_t>(p.register__size())); // by stream
    std::vector<uint32_t> firstWriter(lastReader.size(), kNobody);
    for (const std::vector<uint32_t> &stream : part->program.streams)
      for (uint32_t t : stream) {
        const plan::Task &task = p.task(static_cast<int>(t));
        std::set<uint32_t> makers;
        for (const plan::Argument &a : task.input())
          for (uint32_t x : a.tensor()) {
            lastReader[p.tensor(static_cast<int>(x)).register_()][streamOf[t]] = t;
            if (maker[x] != kNobody && streamOf[maker[x]] != streamOf[t]) makers.insert(maker[x]);
          }
        for (uint32_t m : makers) part->program.tasks[t].waits.push_back({m, 0});
        for (const plan::Argument &a : task.output())
          for (uint32_t x : a.tensor()) {
            uint32_t &first = firstWriter[p.tensor(static_cast<int>(x)).register_()];
            if (first == kNobody) first = t;
          }
      }
    for (size_t r = 0; r < lastReader.size(); ++r) {
      if (firstWriter[r] == kNobody) continue;
      const plan::Register &reg = p.register_(static_cast<int>(r));
      const auto credits = static_cast<int64_t>(std::max(1u, reg.credits()));
      for (const auto &[stream, reader] : lastReader[r])
        if (stream != streamOf[firstWriter[r]]) part->program.tasks[firstWriter[r]].waits.push_back({reader, -credits});
    }
  }

  /// A device for each class; a meeting for each boxing task that joins several classes.
  Status addDevices() {
    struct Meeting {
      uint32_t id = 0;
      std::vector<uint32_t> classes;
      uint32_t came = 0;
      double seconds = 0;
      bool isExchange = false;
    };
    std::map<std::pair<std::string, std::vector<uint32_t>>, Meeting> meetings;
    std::vector<std::vector<std::pair<uint32_t, Meeting *>>> taking(classes_->count()); // by class: task, meeting
    std::map<std::pair<uint32_t, GroupKind>, std::vector<uint32_t>> met;
    for (uint32_t c = 0; c < classes_->count(); ++c)
      for (const PartBoxing &b : partOf(c).boxings) {
        const auto [it, isNew] = met.emplace(std::make_pair(c, kindOf(b.what)), std::vector<uint32_t>());
        if (isNew) it->second = classes_->met(c, kindOf(b.what));
        if (it->second.size() < 2) continue;
        Meeting &m = meetings[{b.name, it->second}];
        m.classes = it->second;
        m.isExchange = kindOf(b.what).meshDim < 0;
        m.seconds = std::max(m.seconds, b.seconds);
        ++m.came;
        taking[c].push_back({b.task, &m});
      }
    for (auto &[key, m] : meetings) {
      // An exchange may leave out ranks that hold nothing of the tensor; a collective leaves out nobody.
      if (m.came != m.classes.size() && !m.isExchange)
        return bad("task " + key.first.substr(0, key.first.rfind('#')) + " is not there on all ranks that it joins");
      m.id = events_.addMeeting(m.seconds, m.came);
    }
    for (uint32_t c = 0; c < classes_->count(); ++c) {
      std::vector<int32_t> meeting;
      if (!taking[c].empty()) meeting.assign(partOf(c).program.tasks.size(), -1);
      for (const auto &[task, m] : taking[c]) meeting[task] = static_cast<int32_t>(m->id);
      events_.addDevice(partOf(c).program, std::move(meeting));
    }
    return Status::ok();
  }

  void fillReport() {
    SimulationReport &r = report_;
    r.graph = plan_.graph();
    r.cluster = cluster_.name;
    r.ranks = static_cast<int64_t>(partOfRank_.size());
    r.microBatches = static_cast<uint32_t>(steps_);
    r.stepSeconds = events_.makespan();
    r.memoryBytes = cluster_.memoryBytes;
    r.simulatedTasks = events_.tasksRun();
    double idle = 0;
    for (uint32_t c = 0; c < classes_->count(); ++c) {
      RankClass k;
      k.firstRank = classes_->firstRank(c);
      k.ranks = classes_->ranks(c);
      k.part = partOfRank_[static_cast<size_t>(k.firstRank)];
      k.computeSeconds = events_.computeSeconds(c);
      k.communicationSeconds = events_.communicationSeconds(c);
      k.exposedSeconds = events_.exposedSeconds(c);
      k.idleSeconds = std::max(0.0, r.stepSeconds - k.computeSeconds - k.exposedSeconds);
      k.arenaBytes = arenaBytesOf(*partOf(c).plan);
      r.computeSeconds = std::max(r.computeSeconds, k.computeSeconds);
      r.communicationSeconds = std::max(r.communicationSeconds, k.communicationSeconds);
      r.exposedSeconds = std::max(r.exposedSeconds, k.exposedSeconds);
      r.peakMemoryBytes = std::max(r.peakMemoryBytes, k.arenaBytes);
      idle += k.idleSeconds * static_cast<double>(k.ranks);
      r.classes.push_back(k);
    }
    if (r.stepSeconds > 0) r.bubbleFraction = idle / static_cast<double>(r.ranks) / r.stepSeconds;
    r.eventsCut = events_.runsCut();
    for (const EventRun &e : events_.runs()) {
      r.events.push_back({e.device, e.stream, e.task, e.step, e.begin, e.end});
      r.eventNames.push_back(partOf(e.device).plan->task(static_cast<int>(e.task)).name());
    }
  }

  void countBytes() {
    const bool exact = report_.ranks <= kExactRanks;
    if (exact) report_.bytesSent.assign(static_cast<size_t>(report_.ranks), 0);
    struct Row {
      LinkTraffic traffic;
      std::map<int64_t, uint64_t> ofRank;
    };
    std::map<std::string, Row> rows;
    std::map<std::pair<std::string, int64_t>, uint64_t> known; // equal boxings of one rank
    const auto add = [&](int64_t rank, int64_t weight, const Part &part) {
      std::map<std::string, int64_t> steps;
      for (const PartBoxing &b : part.boxings) {
        const plan::Task &task = part.plan->task(static_cast<int>(b.task));
        const int64_t runs = steps_ / part.program.tasks[b.task].stride;
        std::string key = task.boxing().SerializeAsString();
        for (const BoxingOp &op : b.what.ops) key += static_cast<char>(op.type);
        const auto [it, isNew] = known.emplace(std::make_pair(std::move(key), rank), 0);
        if (isNew) it->second = prices_.bytesOf(b.what, rank);
        const uint64_t sent = it->second * static_cast<uint64_t>(runs);
        const auto [axis, level] = prices_.linkName(b.what);
        Row &row = rows[axis];
        row.traffic.axis = axis;
        row.traffic.level = level;
        row.traffic.bytes += sent * static_cast<uint64_t>(weight);
        row.traffic.bytesOfRank = std::max(row.traffic.bytesOfRank, row.ofRank[rank] += sent);
        row.traffic.collectives = std::max(row.traffic.collectives, steps[axis] += runs);
        if (exact) report_.bytesSent[static_cast<size_t>(rank)] += sent;
      }
    };
    if (exact)
      for (int64_t r = 0; r < report_.ranks; ++r) add(r, 1, parts_[partOfRank_[static_cast<size_t>(r)]]);
    else
      for (uint32_t c = 0; c < classes_->count(); ++c) add(classes_->firstRank(c), classes_->ranks(c), partOf(c));
    for (auto &[axis, row] : rows) report_.links.push_back(std::move(row.traffic));
  }

  static constexpr int64_t kMaxLag = 1 << 16;

  const plan::Plan &plan_;
  const ClusterDescription &cluster_;
  const SimulationOptions &options_;
  PlanPrices prices_;
  std::vector<Part> parts_;
  std::vector<uint32_t> partOfRank_;
  std::unique_ptr<RankClasses> classes_;
  std::map<std::string, double> boxingPrices_;
  EventSimulation events_;
  int64_t steps_ = 1;
  bool isTimed_ = true;
  SimulationReport report_;
};

} // namespace

Result<SimulationReport> simulate(const plan::Plan &plan, const Registry &registry, const ClusterDescription &cluster,
                                  const SimulationOptions &options) {
  return PlanSimulation(plan, registry, cluster, options).run();
}

Status checkFinishes(const plan::Plan &plan, const Registry &registry) {
  ClusterDescription any; // what it is made of matters to times alone
  any.flops[kFloat] = any.memoryBandwidth = 1;
  any.levels.push_back({"any", std::max(1, plan.part_of_rank_size()), {}, 1, {}});
  return PlanSimulation(plan, registry, any, {}).finishes();
}

} // namespace opc::simulate
