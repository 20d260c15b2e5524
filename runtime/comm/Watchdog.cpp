// Notices that a rank makes no step any more, and ends the job.
// SPDX-License-Identifier: Apache-2.0
#include "Watchdog.h"

#include <cstdio>

namespace opc::runtime {

Watchdog::Watchdog(Communicator &comm, WatchdogOptions options)
    : comm_(comm), options_(std::move(options)), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> guard(lock_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::arm() {
  {
    std::lock_guard<std::mutex> guard(lock_);
    armed_ = true;
    ++arming_;
  }
  changed_.notify_all();
}

void Watchdog::disarm() {
  std::lock_guard<std::mutex> guard(lock_); // the thread finds out at its next look
  armed_ = false;
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  const auto limit = options_.timeout + (comm_.rank() == 0 ? std::chrono::milliseconds(0) : options_.patience);
  const auto look = std::min<std::chrono::milliseconds>(std::chrono::milliseconds(500),
                                                        std::max(options_.timeout / 8, std::chrono::milliseconds(1)));
  std::unique_lock<std::mutex> lock(lock_);
  for (;;) {
    changed_.wait(lock, [&] { return armed_ || ending_; });
    if (ending_) return;
    uint64_t seen = 0, arming = arming_;
    bool first = true;
    auto since = Clock::now();
    while (armed_ && !ending_) {
      const uint64_t now = pokes_.load(std::memory_order_relaxed) + comm_.progress();
      if (first || now != seen || arming != arming_) seen = now, arming = arming_, since = Clock::now();
      first = false;
      if (Clock::now() - since >= limit) {
        armed_ = false;
        lock.unlock();
        char text[128];
        std::snprintf(text, sizeof text, "rank %lld has made no step for %g s", static_cast<long long>(comm_.rank()),
                      static_cast<double>(options_.timeout.count()) / 1000);
        std::string message = text;
        const std::string doing = comm_.activityText(), silent = comm_.silentRanks();
        message += doing.empty() ? "; it is in no boxing" : "; it is in " + doing;
        if (!silent.empty()) message += "; " + silent;
        if (options_.report) options_.report({RankReport::Kind::kStuck, comm_.rank(), "OPC0722", message});
        comm_.abort(message);
        lock.lock();
        break;
      }
      changed_.wait_for(lock, look);
    }
    if (ending_) return;
  }
}

} // namespace opc::runtime
