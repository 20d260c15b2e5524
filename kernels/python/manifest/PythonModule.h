// libopc_python.so: the part of opc that runs Python, opened when an op needs it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelHost.h"

#include <string>
#include <vector>

namespace opc::python {

/// What the module is given: the folders whose code may run, in the order in which they are searched.
struct HostOptions {
  std::vector<std::string> folders;
};

/// Python kernels may come from these folders, and from no others: what files name is searched there alone. The module
/// is found beside the libraries of opc or named by OPC_PYTHON_MODULE. Errors of its opening, when an op needs it:
/// OPC0922.
void allowPythonFrom(const HostOptions &options);

/// Where the module is looked for, in order.
std::vector<std::string> pythonModuleCandidates();

} // namespace opc::python
