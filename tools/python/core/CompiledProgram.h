// A plan, and the operators that it was made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CompileRequest.h"
#include "RegistrySnapshot.h"

#include <string>

namespace opc::python {

struct CompiledProgram {
  RegistryPtr registry;
  std::string plan; // without the values below
  /// Of the plan's variables: where they came with the graph, their file is mapped and each session reads them.
  GraphValues values = {};
};

} // namespace opc::python
