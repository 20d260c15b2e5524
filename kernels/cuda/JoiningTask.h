// Kernels for GPUs whose tasks can be one: one launch does what a launch for each would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <memory>
#include <string>
#include <vector>

namespace opc::cuda {

/// The bound form of such a kernel.
class JoiningTask : public user_op::BoundKernel {
public:
  /// Tasks of equal groups can be one.
  virtual std::string group() const = 0;
  /// A task that does what these do, which are of this one's group, and none of which reads what another one writes. It
  /// keeps what it needs of them.
  virtual std::unique_ptr<user_op::BoundKernel> join(const std::vector<const JoiningTask *> &tasks,
                                                     DeviceCtx *ctx) const = 0;
};

/// An OpKernel that says that its Bind gives a JoiningTask, for an op that has no outputs and updates variables. It has
/// no workspace and no state.
class JoiningKernel {
public:
  virtual ~JoiningKernel() = default;
};

} // namespace opc::cuda
