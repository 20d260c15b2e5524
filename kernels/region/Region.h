// Regions: elementwise ops that are computed in one loop over their elements (docs/code-generation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <memory>
#include <utility>
#include <vector>

namespace opc {

/// The type of a task that computes a region. No graph has it.
constexpr char kRegionType[] = "opc.fused";
/// The op that such a task is an instance of: inputs "in", outputs "out", as many as there are.
const user_op::OpDef &regionOp();

/// One op on values: the region's inputs are values 0 to n - 1, the result of step i is value n + i.
struct RegionStep {
  OpInstance op; // with the descriptors of its tensors
  const user_op::KernelDef *kernel = nullptr;
  std::vector<uint32_t> args;
};

/// What one loop computes. Every step's result has the shape of the loop; inputs are broadcast to it.
struct Region {
  Shape shape;
  std::vector<user_op::TensorDesc> inputs;
  std::vector<RegionStep> steps;
  std::vector<uint32_t> outputs; // values that steps make
  uint32_t valueOf(size_t step) const { return static_cast<uint32_t>(inputs.size() + step); }
  const user_op::TensorDesc &descOf(uint32_t value) const {
    return value < inputs.size() ? inputs[value] : steps[value - inputs.size()].op.outputDescs()[0];
  }
};

constexpr size_t kMaxRegionSteps = 256;
constexpr size_t kMaxRegionTensors = 64; // inputs and outputs

/// Whether an op may be a step: its kernel has a loop over elements, and it has one output.
bool mayJoinRegion(const OpInstance &op, const user_op::KernelDef &kernel);
/// What must hold of a region before it is computed. An error (OPC0816) says which step is wrong; `steps` have their
/// descriptors, which the ops' rules have accepted.
Status checkRegion(const Region &region);
/// The (output, input) pairs that may share memory: the input is as large as the loop and has been read for the last
/// time when the step that makes the output runs.
std::vector<std::pair<int, int>> regionInplacePairs(const Region &region);

/// A kernel that computes the region.
user_op::KernelDef regionKernel(std::shared_ptr<const Region> region);

} // namespace opc
