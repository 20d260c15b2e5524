// What differs in what the compiler decided for two graphs: states, transitions, kernels, and what they cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphComparison.h"

#include <vector>

namespace opc {

/// The sections sbp, boxing, tasks and cost.
void compareDecisions(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const ComparisonOptions &options,
                      std::vector<GraphFinding> *findings);

} // namespace opc
