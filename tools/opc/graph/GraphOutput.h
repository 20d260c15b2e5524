// A graph or plan that a command writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <functional>
#include <string>
#include <string_view>

namespace opc::cli {

/// Writes what was made of the graph or plan `from` to a file, and the manifest of Python operators that lies beside
/// `from` to beside it. Errors: OPC0707.
Status writeGraphOutput(const std::string &path, const std::string &bytes, const std::string &from);
/// The same of a plan, which is not whole in memory: `write` hands its bytes to a sink.
Status writePlanOutput(const std::string &path, const std::string &from,
                       const std::function<Status(const std::function<Status(std::string_view)> &sink)> &write);

} // namespace opc::cli
