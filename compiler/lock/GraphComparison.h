// What differs between two graphs, as findings: interface, ops, edges, tensors, states, transitions, kernels, costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFinding.h"
#include "GraphMatch.h"

#include <string>
#include <vector>

namespace opc {

struct ComparisonOptions {
  bool interface = true; // inputs, outputs, variables
  bool ops = true;       // of the forward pass: types, attributes, edges
  bool tensors = true;   // shapes and element types of what ops make
  bool grad = true;      // the ops of other passes, and which variables have a gradient
  bool sbp = true, boxing = true, tasks = true, cost = true;
  bool pieces = false; // what the ranks have of tensors, where both have namePieces()
  /// What a cost may grow by, as a part of what it was.
  double peakTolerance = 0, flopsTolerance = 0, commTolerance = 0, taskTolerance = 0;
};

/// What both allow.
ComparisonOptions both(const ComparisonOptions &x, const ComparisonOptions &y);

struct GraphDifference {
  std::vector<GraphFinding>
      findings; // in the order of the options, then of b; what is gone, in the order of a, comes last
  size_t paired = 0, renamed = 0;
  size_t reordered = 0; // pairs that stand elsewhere in the file, seen from the others
  double quality = 1;   // GraphMatch::quality()
};

/// `a` is the older graph, or what is locked. Costs and states are compared where both have them. A cost that has
/// fallen, and a name that has changed, are notes; a kernel that has changed is a warning.
GraphDifference compareGraphs(const GraphFacts &a, const GraphFacts &b, const ComparisonOptions &options = {});

/// The same over a match that is made already.
GraphDifference compareGraphs(const FactNodes &a, const FactNodes &b, const GraphMatch &match,
                              const ComparisonOptions &options = {});

} // namespace opc
