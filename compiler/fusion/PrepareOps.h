// Ops that compute the same in every run (docs/adr/0028-prepared-tensors.md). Ops need inferred types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Marks ops (`opc.prepared`) that read nothing but constants, variables that nothing writes and what such ops make,
/// where a task of every run reads their results and these are not much larger than what they are made of. Nothing in
/// a graph that trains.
void prepareOps(mlir::ModuleOp module);

} // namespace opc
