// A graph or plan that a command writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"
#include "Pipeline.h"

#include <string>

namespace opc::cli {

/// Writes what was made of the graph or plan `from` to a file, and the manifest of Python operators that lies beside
/// `from` to beside it. Errors: OPC0707.
Status writeGraphOutput(const std::string &path, const std::string &bytes, const std::string &from);
/// The same; "-" is standard output.
Status writeGraphOutput(Invocation &invocation, const std::string &path, const std::string &bytes,
                        const std::string &from);
/// The same of the plan of a pipeline, piece by piece: the weights are nowhere in memory twice.
Status writePlanOutput(Invocation &invocation, const Pipeline &pipeline, const std::string &path,
                       const std::string &from);

} // namespace opc::cli
