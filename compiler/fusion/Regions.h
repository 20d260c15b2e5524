// Elementwise ops that one loop computes (docs/adr/0015-generated-loops.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FusionFacts.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Joins elementwise ops into `opc.fused` regions where that saves bytes and costs nothing: no op is computed twice, no
/// tensor lives longer, and nothing waits for another rank that did not before. Fails where the ops have no order.
/// `facts`, if given, is told what became of each op, and why.
mlir::LogicalResult formRegions(mlir::ModuleOp module, const Registry &registry, FusionFacts *facts);

} // namespace opc
