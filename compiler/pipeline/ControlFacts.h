// The graphs in the ops of a graph (if, loop) as facts, for what writes them in other formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxExport.h"
#include "Pipeline.h"

#include <map>
#include <string>
#include <vector>

namespace opc {

/// By text, those in ops of such graphs among them. `name` is the graph's. What cannot be read is an error in
/// `findings`, at the op of the graph; a graph that lies too deep is left out.
std::map<std::string, InnerGraph> controlFacts(const GraphFacts &facts, const Registry &registry,
                                               const std::string &name, std::vector<Diagnostic> *findings);

} // namespace opc
