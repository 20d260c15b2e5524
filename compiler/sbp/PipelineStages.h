// Pipelines: stages of a graph on different ranks, and the order of their micro-batches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MeshRequest.h"
#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Gives the graph its placements (`opc.placements`: the whole mesh, then the stages) and each op its own
/// (`opc.placement`): the stage that names it; else a backward op that of its forward op, an update that of its
/// variable, another op the last stage that it reads from; the whole mesh when it reads from none, and what is no
/// forward op from several. Sources, and what is computed of variables alone, live with their readers, outputs where
/// they are made. Errors: OPC0313.
mlir::LogicalResult placeOps(mlir::ModuleOp module, const MeshRequest &request);

/// With micro-batches: on stage i of n, ops that depend on a later stage work on the micro-batch that is n - i turns
/// behind the one of the forward ops (`opc.lag`; for the source of a boxing between stages `opc.source_lag`). With a
/// register for each of those micro-batches this is the order "one forward, one backward". Updates that the graph skips
/// in all micro-batches of a round but the last run there alone (`opc.stride`). After insertBoxing. Errors: OPC0314
/// (the graph accumulates over another number of steps).
mlir::LogicalResult assignLags(mlir::ModuleOp module, const MeshRequest &request);

} // namespace opc
