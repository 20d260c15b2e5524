// A state for every tensor: the graph as a problem of the planner, and its answer as attributes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "MeshRequest.h"
#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Gives every op its states (`opc.sbp`), its producers the copies that are worth keeping (`opc.copies`, for each
/// result a list of states) and what other placements take over (`opc.transfers`, for each result pairs of placement
/// and state). Ops have their placements (`opc.placement`) already. What the user has decided (pins, hints of input
/// names, nd_sbp, job_parallel_view_conf) restricts the signatures. `report` gets cost, bound and gap.
/// Errors: OPC0310 (no signature fits), OPC0311 (a decision that fits nothing), OPC0312 (memory).
mlir::LogicalResult assignSignatures(mlir::ModuleOp module, const MeshRequest &request, MeshFacts *report);

} // namespace opc
