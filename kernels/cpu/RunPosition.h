// Where the running session stands: what random kernels draw their numbers from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::cpu {

/// The seed and the step of the session that runs in this thread; no step outside of one.
struct RunPosition {
  uint64_t seed = 0;
  int64_t step = -1;
};

/// This thread's. Set by the CPU stream before each step; read by kernels in the thread that calls them.
inline RunPosition &runPosition() {
  static thread_local RunPosition position;
  return position;
}

} // namespace opc::cpu
