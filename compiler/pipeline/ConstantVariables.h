// Constants of the IR as values, and as variables where a graph file has no room for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"
#include "StoredTensor.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace opc {

StoredTensor storedValue(ir::ConstantOp op);

/// Puts a variable that no training changes in the place of each constant that a graph file cannot hold, and its value
/// into `values`, by variable. It has the constant's name, or that and a number where the name is another op's, too.
void makeConstantsVariables(mlir::ModuleOp module, std::map<std::string, StoredTensor> *values);

} // namespace opc
