// The graphs that ranks run: the logical graph with the shapes of the pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"
#include "Placement.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace opc {

struct PhysicalGraphs {
  /// One for all ranks whose pieces have equal shapes.
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> parts;
  std::vector<uint32_t> partOfRank;
};

/// Every rank's graph: the ops of the placements that it belongs to, in the logical graph's order, with the types of
/// its pieces and with `opc.sharding` on everything that the runtime has to cut or check. The graph must have its
/// boxings.
PhysicalGraphs makePhysicalGraphs(mlir::ModuleOp module, int64_t ranks);

/// Puts the ranks' graphs into the module of the whole graph, each with its `opc.ranks`; and takes them out again.
void putBeside(mlir::ModuleOp module, PhysicalGraphs graphs);
PhysicalGraphs takePhysicalGraphs(mlir::ModuleOp module);

} // namespace opc
