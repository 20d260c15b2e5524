// What Python asks of a compilation, as the pipeline takes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"
#include "RegistrySnapshot.h"

#include <pybind11/pybind11.h>

namespace opc::python {

void bindCompileOptions(pybind11::module_ &module);

/// The exception for what a pipeline has found.
[[noreturn]] void raiseFindings(const Pipeline &pipeline);

} // namespace opc::python
