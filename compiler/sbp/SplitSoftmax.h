// Cross-entropy over classes that are split: a composite with three reductions of one number for each row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphStates.h"
#include "MeshRequest.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Whether the op is one that can be made a composite of ops on pieces of the classes.
bool maySplitClasses(ir::UserOp op);

/// The states of such an op's prediction, label, prob and out with the classes split on the mesh dimensions of `split`
/// (a bit for each), where `base` (a signature of the op itself) has all of them B; nothing where it has not.
std::optional<std::vector<NdSbp>> splitClassStates(ir::UserOp op, const std::vector<NdSbp> &base, uint64_t split);

/// Seconds of the reductions of one evaluation (maxima, sums of exponentials, logits of the labels).
double splitClassSeconds(ir::UserOp op, const std::vector<NdSbp> &states, uint64_t split, const Placement &placement,
                         const MeshLinks &links);

/// Replaces the ops whose chosen states (`opc.sbp`) split the classes: with x the device's classes,
///   top = max over devices of max x, e = exp(x - top), sum = sum over devices of sum e,
///   prob = e / sum, out = log sum - sum over devices of (x - top)[label],
/// where a device without the label's class adds 0 (Megatron-LM's vocabulary-parallel cross-entropy).
void expandSplitClasses(mlir::ModuleOp module);

} // namespace opc
