// Ops whose work is graphs of their own: which of them an op is, and what its graphs take and make.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <string>
#include <string_view>
#include <vector>

namespace opc {

enum class ControlKind { kNone, kIf, kLoop, kParts };

constexpr char kIfType[] = "if", kLoopType[] = "loop", kPartsType[] = "batch_parts";
/// Graphs in one another: more of them are no work of people.
constexpr int kMostControlDepth = 8;

ControlKind controlKind(std::string_view opType);
/// The attributes that hold its graphs, as texts of graph files: of an `if` that of the condition first.
std::vector<std::string> controlGraphs(ControlKind kind);

/// What a graph of the op takes and makes, by position.
struct ControlPorts {
  std::vector<user_op::TensorDesc> inputs, outputs;
};
/// Of an instance that has been inferred. All graphs of an `if` have the same.
ControlPorts controlPorts(const OpInstance &op);

/// How the tensors of a `loop` are divided: of the inputs the first two are the number of turns and the condition.
struct LoopParts {
  static constexpr size_t kTurns = 0, kCondition = 1, kFirst = 2;
  size_t states = 0, sequences = 0, captures = 0, rows = 0;
  /// Turns that its sequences and rows have room for, and `most` allows; -1: nothing bounds them.
  int64_t length = -1;
  bool isPartial = false, isReverse = false;
};
LoopParts loopParts(const OpInstance &op);

/// How the tensors of a `batch_parts` are divided: the first `cut` inputs and all outputs are cut along their first
/// axis, the other inputs are the same in all parts.
struct BatchParts {
  int64_t parts = 1;
  size_t cut = 0;
};
BatchParts batchParts(const OpInstance &op);
/// One of `parts` equal parts of a tensor along its first axis.
user_op::TensorDesc partOf(const user_op::TensorDesc &whole, int64_t parts);

} // namespace opc
