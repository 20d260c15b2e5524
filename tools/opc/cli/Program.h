// What every program of opc does around its work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Terminal.h"

#include <functional>

namespace opc::cli {

/// The exit code of `work`, or that of the exception that ended it; what was written has then left the process. Before
/// main() begins, a processor that lacks what the kernels need ends the program with OPC0007.
int runProgram(Terminal &terminal, const std::function<int()> &work);

} // namespace opc::cli
