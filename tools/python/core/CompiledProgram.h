// A plan, and the operators that it was made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RegistrySnapshot.h"

#include <string>

namespace opc::python {

struct CompiledProgram {
  RegistryPtr registry;
  std::string plan;
};

} // namespace opc::python
