// Every transition between states as ops: the collectives of the graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "MeshRequest.h"
#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Puts opc.boxing ops where a reader wants another state than the one that its tensor is made in (`opc.sbp`): first
/// the copies and transfers that the planner chose, then what single readers need from the cheapest state that there
/// is; a state is made once. Reductions that the computation need not wait for get a channel of their own and are
/// joined, those of one dtype, kind, reduction and mesh dimension, up to `request.bucketBytes`.
mlir::LogicalResult insertBoxing(mlir::ModuleOp module, const MeshRequest &request);

/// The order that the boxings have in the graph becomes the one that all ranks keep (`opc.order`).
void numberBoxings(mlir::ModuleOp module);

/// The op's i-th tensor as a step that can be carried out or costed. For logical graphs.
BoxingOp boxingOf(ir::BoxingOp op, unsigned i, const std::vector<Placement> &placements);

/// What has been decided, for people. After insertBoxing.
void describeMesh(mlir::ModuleOp module, const MeshRequest &request, MeshFacts *report);

} // namespace opc
