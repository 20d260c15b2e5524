// Elementwise ops that one loop computes (docs/adr/0015-generated-loops.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FusionFacts.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Joins elementwise ops into `opc.fused` regions where that saves bytes and costs nothing: no op is computed twice, no
/// tensor lives longer, and nothing waits for another rank that did not before. Fails where the ops have no order.
/// In a graph for a GPU, ops that go element by element there are joined, and none that is placed on the CPU.
/// `facts`, if given, is told what became of each op, and why.
mlir::LogicalResult formRegions(mlir::ModuleOp module, const Registry &registry, DeviceType device, FusionFacts *facts);

/// In a graph for a GPU, puts ops that have no kernel there, and code can be generated for, into regions of their own.
void formSingleRegions(mlir::ModuleOp module, const Registry &registry);

} // namespace opc
