// Between opc.fused and the regions that kernels compute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Batch.h"
#include "OpForms.h"
#include "Region.h"

#include <memory>

namespace opc::ir {

/// The kernels of steps, and what they go over, of ops that toRegion has seen.
struct StepFacts {
  const user_op::KernelDef *kernel = nullptr;
  Joinable loops;
};
using KnownSteps = ByForm<StepFacts>;

/// What the op computes, with the kernels of the CPU, which have the loops; `device` says whether it is for a GPU.
/// Errors: those of an op without a kernel, or without code for a GPU, and OPC0816 for a body that is no region.
Result<std::shared_ptr<const Region>> toRegion(FusedOp op, const Registry &registry, DeviceType device,
                                               KnownSteps *known = nullptr);

/// The kind of an opc.fused that is a batch of updates.
constexpr char kUpdatesKind[] = "updates";
/// The same for an op of that kind.
Result<std::shared_ptr<const Batch>> toBatch(FusedOp op, const Registry &registry, DeviceType device);

/// Calls `f(user)` for each user op of a graph's block, those inside of opc.fused in their place.
template <class F> void forEachUserOp(mlir::Block &block, F &&f) {
  for (mlir::Operation &op : block) {
    if (auto user = llvm::dyn_cast<UserOp>(&op))
      f(user);
    else if (auto fused = llvm::dyn_cast<FusedOp>(&op))
      for (UserOp inner : fused.getBody().front().getOps<UserOp>()) f(inner);
  }
}

} // namespace opc::ir
