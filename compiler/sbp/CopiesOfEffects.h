// Ops that do more than compute, of which a mesh has copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Warns (OPC0315), once, of ops that are not held to be pure and say nothing of meshes: every device runs one, and
/// their outputs count as equal copies.
void warnOfCopies(mlir::ModuleOp module, int64_t devices);

} // namespace opc
