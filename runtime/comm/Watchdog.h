// Notices that a rank makes no step any more, and ends the job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"
#include "RankReport.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace opc::runtime {

struct WatchdogOptions {
  std::chrono::milliseconds timeout{300000};
  /// Rank 0 speaks first where it can: it knows which ranks do not answer. The others wait this much longer.
  std::chrono::milliseconds patience{2000};
  /// Gets the message (OPC0722) once, from the watchdog's thread, before Communicator::abort ends the job.
  std::function<void(const RankReport &)> report;
};

/// A thread that watches one rank. It is armed between arm() and disarm(); while it is, every boxing step that begins
/// (the communicator counts them) and every poke() starts the time anew. The communicator outlives it.
class Watchdog {
public:
  Watchdog(Communicator &comm, WatchdogOptions options);
  ~Watchdog();
  void arm();
  void disarm();
  /// A sign of life other than boxing: a step or a long task has ended. Cheap.
  void poke() { pokes_.fetch_add(1, std::memory_order_relaxed); }

private:
  void watch();
  Communicator &comm_;
  const WatchdogOptions options_;
  std::atomic<uint64_t> pokes_{0};
  std::mutex lock_;
  std::condition_variable changed_;
  bool armed_ = false, ending_ = false;
  uint64_t arming_ = 0;
  std::thread thread_;
};

} // namespace opc::runtime
