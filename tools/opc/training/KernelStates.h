// What kernels keep for themselves, which no checkpoint holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string>

namespace opc::cli {

/// A sentence on the first op of the plan whose kernels make a state, and how many more there are; "" when none does.
/// Built-in kernels make none that lasts: their random numbers depend on the seed, the step and the place alone.
std::string statesOfKernels(const std::string &plan, const Registry &registry);

} // namespace opc::cli
