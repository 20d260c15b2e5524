// The KernelHost that runs Python: finds kernels, asks shape rules, makes tasks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelHost.h"
#include "PyRef.h"

namespace opc::python {

/// With the GIL and with the package opc importable: imports opc._host and numpy. `folders`: where code may come from
/// besides the ops of this process. One for each process; lives until it ends. Errors: OPC0922.
Result<KernelHost *> startPythonKernels(const std::vector<std::string> &folders);

} // namespace opc::python
