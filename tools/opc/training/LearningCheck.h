// Whether a graph that is to be trained learns anything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string_view>

namespace opc::cli {

/// Whether a task of the plan writes a variable. A plan that cannot be read writes none: loading has said so.
bool writesVariables(std::string_view planFile, const Registry &registry);

} // namespace opc::cli
