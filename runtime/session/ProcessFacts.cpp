// What is true of the process and not of one session.
// SPDX-License-Identifier: Apache-2.0
#include "KernelTask.h"
#include "Session.h"
#include "cpu/CpuDevice.h"

namespace opc {

uint64_t defaultMemoryLimit() { return runtime::machineMemory() / 10 * 9; }

RunningOp runningOp() noexcept {
  const auto [name, type] = KernelTask::runningOp();
  return {name, type};
}

std::string runningKernel() {
  const RunningOp op = runningOp();
  return op.name ? std::string("op ") + op.name + " (" + op.type + ")" : "";
}

} // namespace opc
