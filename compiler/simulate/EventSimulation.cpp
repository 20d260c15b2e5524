// Every stream is advanced until it waits for something that has not happened; whoever makes it happen wakes it. The
// order in which streams are advanced changes nothing: all times follow from the waits.
// SPDX-License-Identifier: Apache-2.0
#include "EventSimulation.h"

#include <algorithm>

namespace opc::simulate {

namespace {

void append(std::vector<EventInterval> *list, double begin, double end) {
  if (end <= begin) return;
  if (!list->empty() && list->back().end == begin)
    list->back().end = end;
  else
    list->push_back({begin, end});
}

/// Sorted and disjoint.
std::vector<EventInterval> merged(std::vector<EventInterval> list) {
  std::sort(list.begin(), list.end(), [](const auto &a, const auto &b) { return a.begin < b.begin; });
  std::vector<EventInterval> out;
  for (const EventInterval &i : list)
    if (out.empty() || i.begin > out.back().end)
      out.push_back(i);
    else
      out.back().end = std::max(out.back().end, i.end);
  return out;
}
double length(const std::vector<EventInterval> &disjoint) {
  double sum = 0;
  for (const EventInterval &i : disjoint) sum += i.end - i.begin;
  return sum;
}

} // namespace

uint32_t EventSimulation::addDevice(const EventProgram &program, std::vector<int32_t> meeting) {
  Device d;
  d.program = &program;
  d.meeting = std::move(meeting);
  d.recorded.assign(program.tasks.size(), -1);
  for (const EventTask &t : program.tasks)
    for (const EventWait &w : t.waits)
      if (d.recorded[w.task] < 0) {
        d.recorded[w.task] = static_cast<int32_t>(d.finished.size());
        d.finished.emplace_back();
        d.waiters.emplace_back();
      }
  devices_.push_back(std::move(d));
  return static_cast<uint32_t>(devices_.size() - 1);
}

uint32_t EventSimulation::addMeeting(double seconds, uint32_t devices) {
  Meeting m;
  m.seconds = seconds;
  m.devices = devices;
  meetings_.push_back(std::move(m));
  return static_cast<uint32_t>(meetings_.size() - 1);
}

void EventSimulation::push(uint32_t stream) {
  if (streams_[stream].queued || streams_[stream].done) return;
  streams_[stream].queued = true;
  queue_.push_back(stream);
}

void EventSimulation::wake(std::vector<uint32_t> *waiters) {
  for (uint32_t s : *waiters) push(s);
  waiters->clear();
}

void EventSimulation::advance(uint32_t index, int64_t steps) {
  Stream &s = streams_[index];
  Device &d = devices_[s.device];
  const std::vector<uint32_t> &order = d.program->streams[s.stream];
  for (; s.turn < s.turns; ++s.turn, s.index = 0)
    for (; s.index < order.size(); ++s.index) {
      const uint32_t id = order[s.index];
      const EventTask &task = d.program->tasks[id];
      const int64_t step = s.turn - static_cast<int64_t>(task.lag);
      if (step < 0 || step >= steps) continue;
      double ready = s.time;
      for (const EventWait &w : task.waits) {
        const int64_t k = step + w.offset;
        if (k < 0) continue;
        const auto r = static_cast<size_t>(d.recorded[w.task]);
        if (static_cast<size_t>(k) >= d.finished[r].size()) {
          d.waiters[r].push_back(index);
          return;
        }
        ready = std::max(ready, d.finished[r][static_cast<size_t>(k)]);
      }
      double begin = ready, end = ready;
      if ((step + 1) % task.stride == 0) {
        const int32_t meeting = d.meeting.empty() ? -1 : d.meeting[id];
        if (meeting < 0) {
          end = ready + task.seconds;
        } else {
          Meeting &m = meetings_[static_cast<size_t>(meeting)];
          // Steps at which the task does not run are no meetings.
          const auto turn = static_cast<size_t>((step + 1) / task.stride - 1);
          if (!s.arrived) {
            s.arrived = true;
            while (m.turns.size() + m.firstTurn <= turn) m.turns.emplace_back();
            Meeting::Turn &t = m.turns[turn - m.firstTurn];
            t.latest = std::max(t.latest, ready);
            if (++t.arrived == m.devices) {
              m.finished.push_back(t.latest + m.seconds);
              m.turns.pop_front(); // devices come to a meeting in the order of its turns
              ++m.firstTurn;
              wake(&m.waiters);
            }
          }
          if (m.finished.size() <= turn) {
            m.waiters.push_back(index);
            return;
          }
          s.arrived = false;
          end = m.finished[turn];
          begin = end - m.seconds;
        }
        append(task.communicates ? &d.communication : &d.compute, begin, end);
        ++tasksRun_;
        if (recordAtMost_ > 0 && end > begin) {
          if (runs_.size() < recordAtMost_)
            runs_.push_back({s.device, s.stream, id, step, begin, end});
          else
            runsCut_ = true;
        }
      }
      s.time = end;
      if (const int32_t r = d.recorded[id]; r >= 0) {
        d.finished[static_cast<size_t>(r)].push_back(end);
        wake(&d.waiters[static_cast<size_t>(r)]);
      }
    }
  s.done = true;
  makespan_ = std::max(makespan_, s.time);
}

Status EventSimulation::run(int64_t steps) {
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    const EventProgram &p = *devices_[d].program;
    int64_t lag = 0;
    for (const EventTask &t : p.tasks) lag = std::max(lag, static_cast<int64_t>(t.lag));
    for (uint32_t s = 0; s < p.streams.size(); ++s) {
      Stream stream;
      stream.device = d;
      stream.stream = s;
      stream.turns = steps + lag;
      streams_.push_back(stream);
    }
  }
  for (uint32_t s = 0; s < streams_.size(); ++s) push(s);
  while (!queue_.empty()) {
    const uint32_t s = queue_.front();
    queue_.pop_front();
    streams_[s].queued = false;
    advance(s, steps);
  }
  for (const Stream &s : streams_)
    if (!s.done) {
      stuck_ = {s.device, devices_[s.device].program->streams[s.stream][s.index]};
      return Status(StatusCode::kInvalidGraph, "OPC0746", "the plan cannot finish: its streams wait for each other");
    }
  return Status::ok();
}

double EventSimulation::computeSeconds(uint32_t device) const { return length(merged(devices_[device].compute)); }
double EventSimulation::communicationSeconds(uint32_t device) const {
  return length(merged(devices_[device].communication));
}
double EventSimulation::exposedSeconds(uint32_t device) const {
  const Device &d = devices_[device];
  std::vector<EventInterval> all = d.compute;
  all.insert(all.end(), d.communication.begin(), d.communication.end());
  return length(merged(std::move(all))) - computeSeconds(device);
}

} // namespace opc::simulate
