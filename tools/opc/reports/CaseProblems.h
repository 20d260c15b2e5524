// What is wrong with an op's definition, as its sample cases show it: without running a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string>
#include <vector>

namespace opc::cli {

/// For each problem a sentence that begins with the case: one that no element type makes an op of, or that no kernel
/// for the CPU takes where there are kernels for the CPU; functions for temporary memory and results in place that fail
/// or name an argument that is not there; a sharding rule that does not fit. Empty where nothing is wrong.
std::vector<std::string> problemsOfCases(const Registry &registry, const user_op::OpDef &op);

} // namespace opc::cli
