// What a compilation cannot be asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"

namespace opc {

/// Reports OPC0001 for an option that no graph can be compiled with: a device that is none, a number out of its range.
/// The command has refused such values by then; programs have nobody else who would. `graph`: its name.
bool checkOptions(const CompileOptions &options, const std::string &graph, std::vector<Diagnostic> *found);

} // namespace opc
