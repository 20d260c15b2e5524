// What CUDA's device runtime gives kernels: printf and assert.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelProgram.h"

#include <string_view>

namespace opc::gpusim {

/// The handler of a call of vprintf, __assertfail, and how many arguments it reads; null for functions of the module.
Handler builtinFunction(std::string_view name, uint32_t *arguments);

} // namespace opc::gpusim
