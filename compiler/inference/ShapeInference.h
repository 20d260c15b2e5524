// Shape and dtype inference over the registry's rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Gives every tensor its type. All errors are emitted (MLIR diagnostics that begin with their code); an op whose
/// operands failed is skipped silently. Fails when anything did.
mlir::LogicalResult inferShapes(mlir::ModuleOp module, const Registry &registry);

} // namespace opc
