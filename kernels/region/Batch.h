// Batches: updates of many variables that are one task (docs/code-generation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <memory>
#include <vector>

namespace opc {

/// One update of a batch. Its inputs are those of the batch, by number.
struct BatchStep {
  OpInstance op; // with the descriptors of its tensors
  const user_op::KernelDef *kernel = nullptr;
  std::vector<uint32_t> args;
};

/// Updates that run side by side: none reads what another one writes.
struct Batch {
  std::vector<user_op::TensorDesc> inputs;
  std::vector<BatchStep> steps;
};

constexpr size_t kMaxBatchSteps = 1024;

/// Whether an op may be in a batch: it has no outputs, and its kernel computes pieces (opc/PieceTask.h), or, on a GPU,
/// its launches can be one (JoiningTask.h).
bool mayJoinBatch(const OpInstance &op, const user_op::KernelDef &kernel, DeviceType device);
/// What must hold of a batch before it runs. An error (OPC0816) says which step is wrong.
Status checkBatch(const Batch &batch, DeviceType device);
/// Which inputs are written.
std::vector<bool> writtenInputs(const Batch &batch);

/// A kernel that runs the batch: its pieces are those of all steps, which threads share evenly; on a GPU, launches for
/// many steps each.
user_op::KernelDef batchKernel(std::shared_ptr<const Batch> batch);

} // namespace opc
