// What the values of a run say about the graph that it compiles: names, and shapes that the graph leaves open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"
#include "ValueGiver.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// True when an input leaves a dimension or its dtype open.
bool hasOpenInputs(const GraphFacts &info);

/// What can be said of the values before the graph is compiled: names that it does not have (OPC0005), and inputs whose
/// shape is open and for which nothing is given (OPC0004). With `fedElsewhere`, inputs named there have values, and
/// every other input without one is reported.
Status checkGraphInputs(const GraphFacts &info, const NamedValues &inputs,
                        const std::map<std::string, std::vector<int64_t>> &shapes, const ValueFlags &flags,
                        const std::vector<std::string> &command, const std::set<std::string> *fedElsewhere = nullptr);

/// The shapes for inputs that the graph leaves open, from the values given for them.
Result<std::map<std::string, std::vector<int64_t>>> shapesOfOpenInputs(const GraphFacts &info,
                                                                       const NamedValues &inputs);

} // namespace opc::cli
