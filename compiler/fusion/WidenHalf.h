// Ops in half precision whose kernels compute in f32 (docs/adr/0029-half-precision-in-f32.md). Ops need inferred types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace opc {

class Registry;

/// Gives such ops tensors of f32, with casts in front of them and behind: what their kernels do within, with the same
/// bits. Nothing in a graph that trains.
void widenHalf(mlir::ModuleOp module, const Registry &registry);

} // namespace opc
