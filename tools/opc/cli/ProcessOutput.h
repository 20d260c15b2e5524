// What this program writes when it is run once more, as a process of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc::cli {

/// Runs this program with other arguments and waits for it; what it writes to standard output. Its standard error is
/// this process's. Errors: OPC0604 when it cannot be started or ends otherwise than with 0.
Result<std::string> outputOfOwnProgram(const std::vector<std::string> &arguments);

} // namespace opc::cli
