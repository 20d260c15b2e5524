// The discrete event simulation itself: devices with streams of tasks in fixed order, waits between streams, and
// meetings of devices. It knows no plan and no prices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <deque>
#include <vector>

namespace opc::simulate {

/// Until the step `step + offset` of a task of the same device is done; steps below 0 are.
struct EventWait {
  uint32_t task = 0;
  int64_t offset = 0;
};

struct EventTask {
  double seconds = 0;  // of a task that meets nobody
  uint32_t lag = 0;    // at turn t of its stream the task does step t - lag
  uint32_t stride = 1; // it runs at the steps k with (k + 1) % stride == 0; at others it takes no time
  bool communicates = false;
  std::vector<EventWait> waits;
};

/// What a device does in every step: the same for many devices.
struct EventProgram {
  std::vector<EventTask> tasks;
  std::vector<std::vector<uint32_t>> streams; // tasks in order
};

struct EventInterval {
  double begin = 0, end = 0;
};

/// A finished run of one task.
struct EventRun {
  uint32_t device = 0, stream = 0, task = 0;
  int64_t step = 0;
  double begin = 0, end = 0;
};

class EventSimulation {
public:
  /// `meeting[t]`: the meeting that task t takes part in, or -1; empty: none. The program must live as long as this.
  uint32_t addDevice(const EventProgram &program, std::vector<int32_t> meeting = {});
  /// Tasks of several devices that begin together, when the last of them is ready, and end together.
  uint32_t addMeeting(double seconds, uint32_t devices);

  /// Keeps up to `most` runs that take time.
  void record(size_t most) { recordAtMost_ = most; }

  /// Runs `steps` steps. OPC0746 when streams wait for each other for ever, with what the first of them waits for.
  Status run(int64_t steps);

  double makespan() const { return makespan_; }
  /// Time in which the device computes, communicates, and communicates without computing.
  double computeSeconds(uint32_t device) const;
  double communicationSeconds(uint32_t device) const;
  double exposedSeconds(uint32_t device) const;
  uint64_t tasksRun() const { return tasksRun_; }
  const std::vector<EventRun> &runs() const { return runs_; }
  bool runsCut() const { return runsCut_; }
  /// What a stream that cannot go on waits for, after OPC0746: device, task.
  std::pair<uint32_t, uint32_t> stuck() const { return stuck_; }

private:
  struct Stream {
    uint32_t device = 0, stream = 0;
    size_t index = 0;
    int64_t turn = 0, turns = 0;
    double time = 0;
    bool arrived = false, queued = false, done = false;
  };
  struct Device {
    const EventProgram *program = nullptr;
    std::vector<int32_t> meeting;
    std::vector<int32_t> recorded;                     // task -> index into finished, or -1
    std::vector<std::vector<double>> finished;         // by recorded task, then step
    std::vector<std::vector<uint32_t>> waiters;        // by recorded task: streams
    std::vector<EventInterval> compute, communication; // by stream in order, merged where they touch
  };
  struct Meeting {
    double seconds = 0;
    uint32_t devices = 0;
    struct Turn {
      uint32_t arrived = 0;
      double latest = 0;
    };
    std::deque<Turn> turns;
    size_t firstTurn = 0;
    std::vector<double> finished;
    std::vector<uint32_t> waiters;
  };
  void advance(uint32_t stream, int64_t steps);
  void wake(std::vector<uint32_t> *waiters);
  void push(uint32_t stream);

  std::vector<Device> devices_;
  std::vector<Meeting> meetings_;
  std::vector<Stream> streams_;
  std::deque<uint32_t> queue_;
  double makespan_ = 0;
  uint64_t tasksRun_ = 0;
  size_t recordAtMost_ = 0;
  bool runsCut_ = false;
  std::vector<EventRun> runs_;
  std::pair<uint32_t, uint32_t> stuck_{0, 0};
};

} // namespace opc::simulate
