// Updates that need norms of their whole model, split: a composite that adds up the norms of the pieces first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphStates.h"
#include "MeshRequest.h"
#include "NdSignatures.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

struct DeviceSpeed;

/// A signature that an op has as a composite, and the seconds of what comes beside the op.
struct CompositeSignature {
  NdSignature signature;
  double seconds;
};

/// For lamb_update and lars_update without norms: the states of their inputs in which they would be split if they were
/// given norms, with the seconds of lamb_norms (lars_norms) on a piece and of the reduction of its two numbers. Nothing
/// for other ops.
std::vector<CompositeSignature> splitUpdateSignatures(ir::UserOp op, const OpInstance &instance,
                                                      const Placement &placement, const MeshLinks &links,
                                                      const DeviceSpeed &device);

/// Gives norms to the updates whose chosen states (`opc.sbp`) split them.
void expandSplitUpdates(mlir::ModuleOp module);

} // namespace opc
