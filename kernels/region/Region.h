// Regions: ops that are computed in one loop over elements, or over rows (docs/code-generation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include "opc/MovingKernel.h"
#include "opc/RowsKernel.h"

#include <memory>
#include <utility>
#include <vector>

namespace opc {

/// The type of a task that computes a region. No graph has it.
constexpr char kRegionType[] = "opc.fused";
/// The op that such a task is an instance of: inputs "in", outputs "out", as many as there are.
const user_op::OpDef &regionOp();

/// One op on values: the region's inputs are values 0 to n - 1, then come the results of the steps.
struct RegionStep {
  OpInstance op; // with the descriptors of its tensors
  const user_op::KernelDef *kernel = nullptr;
  std::vector<uint32_t> args;
  std::shared_ptr<const user_op::RowsLoop> rows = nullptr; // null: an op that goes element by element
  std::shared_ptr<const user_op::MoveMap> moves = nullptr; // not null: an op that only moves elements
  uint32_t made = 0;                                       // its first result; the others follow
};

/// What one loop computes. Without rows every step's result has the shape of the loop, and inputs are broadcast to it.
/// With rows, results have that shape or an element for each row (RowAccess.h). Steps that only move elements are no
/// part of the loop: it reads through them (MoveAccess.h), and other shapes are possible behind them.
struct Region {
  Shape shape;
  int64_t rowSize = 0; // 0: a loop over elements
  std::vector<user_op::TensorDesc> inputs;
  std::vector<RegionStep> steps;
  std::vector<uint32_t> outputs; // values that steps make

  /// All inputs must be there.
  void add(RegionStep step);
  bool hasMoves() const { return hasMoves_; }
  size_t values() const { return inputs.size() + makers_.size(); }
  uint32_t valueOf(size_t step) const { return steps[step].made; }
  size_t makerOf(uint32_t value) const { return makers_[value - inputs.size()].first; }
  const user_op::TensorDesc &descOf(uint32_t value) const {
    if (value < inputs.size()) return inputs[value];
    const auto &[step, output] = makers_[value - inputs.size()];
    return steps[step].op.outputDescs()[output];
  }

private:
  bool hasMoves_ = false;
  std::vector<std::pair<uint32_t, uint32_t>> makers_; // step and its output, by value that steps make
};

constexpr size_t kMaxRegionSteps = 256;
constexpr size_t kMaxRegionTensors = 64;   // inputs and outputs
constexpr size_t kMaxRegionValues = 512;   // that steps make
constexpr int64_t kMaxRowBytes = 64 << 20; // of all values, what belongs to one row

/// Whether an op may be a step: its kernel has a loop over elements, and it has one output; or one over rows; or it
/// only moves elements.
struct Joinable {
  bool may = false;
  std::shared_ptr<const user_op::RowsLoop> rows; // null: elements
  std::shared_ptr<const user_op::MoveMap> moves;
};
Joinable joinable(const OpInstance &op, const user_op::KernelDef &kernel);
/// Finds the region's shape and rows from its steps, and checks what must hold of it before it is computed. An error
/// (OPC0816) says which step is wrong; `steps` have their descriptors, which the ops' rules have accepted.
Status completeRegion(Region *region);
/// The (output, input) pairs that may share memory: the input lies like the output, and has been read for the last time
/// when the step that makes the output runs; before it, where that goes by rows.
std::vector<std::pair<int, int>> regionInplacePairs(const Region &region);

/// A kernel that computes the region.
user_op::KernelDef regionKernel(std::shared_ptr<const Region> region);

} // namespace opc
