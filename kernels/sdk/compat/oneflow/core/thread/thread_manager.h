// Loops on several threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/balanced_splitter.h"
#include "oneflow/core/common/blocking_counter.h"
#include "oneflow/core/common/protobuf.h"

namespace oneflow {

/// f(i) for each i of [0, n), one after the other.
inline void SingleThreadLoop(size_t n, const std::function<void(size_t)> &f) {
  for (size_t i = 0; i < n; ++i) f(i);
}

/// f(i) for each i of [0, n), on the threads that the running kernel may use.
inline void MultiThreadLoop(size_t n, const std::function<void(size_t)> &f) {
  const DeviceCtx *device = ::opc::detail::runningDevice;
  if (!device) return SingleThreadLoop(n, f);
  device->parallelFor(static_cast<int64_t>(n), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(static_cast<size_t>(i));
  });
}

/// Work that is handed over is done at once, by whoever hands it over: one thread, as far as a caller can tell.
class ThreadPool final {
public:
  int32_t thread_num() const { return 1; }
  void AddWork(const std::function<void()> &work) { work(); }
};
template <> inline ThreadPool *Global<ThreadPool>::Get() {
  static ThreadPool pool;
  return &pool;
}

} // namespace oneflow
