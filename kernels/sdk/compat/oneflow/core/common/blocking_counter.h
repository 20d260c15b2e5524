// A counter on which a thread waits until others have brought it to zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/util.h"

namespace oneflow {

class BlockingCounter final {
public:
  OF_DISALLOW_COPY_AND_MOVE(BlockingCounter);
  explicit BlockingCounter(int64_t count) : count_(count) {}
  int64_t Decrease() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--count_ == 0) zero_.notify_all();
    return count_;
  }
  void WaitUntilCntEqualZero() {
    std::unique_lock<std::mutex> lock(mutex_);
    zero_.wait(lock, [this] { return count_ == 0; });
  }

private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int64_t count_;
};

} // namespace oneflow
