// Whether the ranks of a plan come to their end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace opc {

/// Stages wait for each other, and ops that are in several of them may make that a circle: OPC0746 with one of the
/// tasks that wait for ever. `logical`: the graph that the plan was made of, with the ops' placements.
bool checkFinishes(const std::string &planBytes, mlir::ModuleOp logical, const Registry &registry,
                   const std::string &file, std::vector<Diagnostic> *findings);

} // namespace opc
