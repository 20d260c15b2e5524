// A part of a graph: ops that are named, and what stands around them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc::cli {

/// Keeps the nodes at most `depth` edges away from the named op, input, variable or output, in both directions, in
/// their order. Errors: OPC0005 when there is no such name. `flag` is what messages call the option.
Status selectAround(const std::string &name, int64_t depth, const std::string &flag, GraphFacts *facts);

/// Keeps the nodes on all paths along which data goes from one to another: "A..B". Errors: OPC0001, OPC0005 when there
/// is no such name or no path.
Status selectPaths(const std::string &fromTo, GraphFacts *facts);

} // namespace opc::cli
