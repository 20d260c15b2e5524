// What kernels say of the tasks of ops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpForms.h"
#include "Registry.h"

#include <utility>
#include <vector>

namespace opc {

/// What the form of an op says of its task.
struct TaskFacts {
  const user_op::KernelDef *kernel = nullptr;
  uint64_t workspace = 0;                   // bytes
  std::vector<std::pair<int, int>> inPlace; // outputs and the inputs that they may overwrite
  std::vector<bool> hidden;                 // inputs that it writes only where they are variables
};

/// Looks each form of op up once.
class KnownTasks {
public:
  explicit KnownTasks(const Registry &registry) : registry_(registry) {}
  /// Of a kernel for `device`. Null with an error for an op without one. Stands until the next call.
  const TaskFacts *of(ir::UserOp op, DeviceType device);

private:
  const Registry &registry_;
  ir::ByForm<TaskFacts> known_;
};

} // namespace opc
