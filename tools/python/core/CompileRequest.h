// What Python asks of a compilation, as the pipeline takes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"
#include "RegistrySnapshot.h"

#include <pybind11/pybind11.h>

#include <map>
#include <memory>
#include <string>

namespace opc::python {

/// What came with a graph that was read: values of its variables. Nothing that Python looks into.
struct GraphValues {
  std::shared_ptr<const std::map<std::string, StoredTensor>> tensors;
};

void bindCompileOptions(pybind11::module_ &module);

/// The exception for what a pipeline has found.
[[noreturn]] void raiseFindings(const Pipeline &pipeline);

} // namespace opc::python
