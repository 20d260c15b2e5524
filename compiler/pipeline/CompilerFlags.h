// Flags of LLVM and MLIR for those who work on the compiler (`--mlir`): of passes, printing and timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc {

/// Sets them for all pipelines of the process, before the first one is made; once. Errors: OPC0001 for a flag that
/// there is not, or a value that it does not take.
Status setCompilerFlags(const std::vector<std::string> &flags);
/// Whether setCompilerFlags() has set any.
bool hasCompilerFlags();

} // namespace opc
