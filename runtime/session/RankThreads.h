// One thread for each rank of this process: the caller's for the first, the others wait for work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "StartedThread.h"
#include "opc/Status.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace opc::runtime {

class RankThreads {
public:
  explicit RankThreads(size_t ranks) : statuses_(ranks) {}
  ~RankThreads() {
    {
      std::lock_guard lock(lock_);
      stopping_ = true;
    }
    begin_.notify_all();
    for (std::thread &t : threads_) t.join();
  }

  /// work(i) for every rank at once; what each of them returned, valid until the next call. Threads begin with the
  /// first call; where the system refuses one, nobody works, and all have returned OPC0614.
  template <class Work> const std::vector<Status> &forAll(Work &&work) {
    if (statuses_.size() > 1) {
      threads_.reserve(statuses_.size() - 1);
      while (threads_.size() + 1 < statuses_.size()) {
        Result<std::thread> started = startedThread([this, i = threads_.size() + 1] { loop(i); });
        if (!started) {
          statuses_.assign(statuses_.size(), started.status());
          return statuses_;
        }
        threads_.push_back(std::move(*started));
      }
      std::lock_guard lock(lock_);
      work_ = std::ref(work); // a reference: nothing is allocated
      working_ = statuses_.size() - 1;
      ++epoch_;
    }
    begin_.notify_all();
    statuses_[0] = work(size_t{0});
    std::unique_lock lock(lock_);
    end_.wait(lock, [this] { return working_ == 0; });
    return statuses_;
  }

private:
  void loop(size_t index) {
    uint64_t seen = 0;
    for (;;) {
      std::unique_lock lock(lock_);
      begin_.wait(lock, [&] { return stopping_ || epoch_ != seen; });
      if (stopping_) return;
      seen = epoch_;
      const std::function<Status(size_t)> work = work_;
      lock.unlock();
      Status status = work(index);
      lock.lock();
      statuses_[index] = std::move(status);
      if (--working_ == 0) end_.notify_one();
    }
  }

  std::vector<Status> statuses_;
  std::vector<std::thread> threads_;
  std::mutex lock_;
  std::condition_variable begin_, end_;
  std::function<Status(size_t)> work_;
  size_t working_ = 0;
  uint64_t epoch_ = 0;
  bool stopping_ = false;
};

} // namespace opc::runtime
