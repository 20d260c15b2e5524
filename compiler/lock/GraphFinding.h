// What a comparison or a rule has found in a graph, as data: `opc diff` and `opc check` say the same of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"

#include <string>

namespace opc {

/// What a finding is about, and what has become of it.
enum class ChangeSubject { kInput, kOutput, kVariable, kOp, kTensor, kGradient, kStates, kTransition, kKernel, kCost };
enum class ChangeKind { kChanged, kAdded, kRemoved, kRenamed, kReordered };

struct GraphFinding {
  std::string rule; // "OP_ATTR_CHANGED"
  ChangeSubject subject = ChangeSubject::kOp;
  ChangeKind change = ChangeKind::kChanged;
  Severity severity = Severity::kError;
  std::string graph;      // the file
  std::string op, tensor; // what it is about; one of them may be empty
  SourceRange range;      // in the newer graph; of what is gone, in the older one
  std::string message;    // "attr transpose_b: false -> true", without the name of the op
  std::string expected, found;
  std::string help;
};

} // namespace opc
