// A loop on several threads, for kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/thread/thread_manager.h"

namespace oneflow::user_op {
inline void MultiThreadLoopInOpKernel(size_t n, const std::function<void(size_t)> &f) { MultiThreadLoop(n, f); }
} // namespace oneflow::user_op
