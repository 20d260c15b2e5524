// From gradients to a training step: loss scale, accumulation, clipping, learning rate, optimizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GradientGeneration.h"
#include "TrainingConfig.h"

namespace opc {

/// Where gradients begin.
struct Seeds {
  llvm::SmallVector<mlir::Value> gradients; // the losses' own; empty: ones
  mlir::Value lossScale;                    // the variable of a dynamic loss scale; else null
};

/// Before gradients are generated: what they begin with, when the loss is scaled. `given`: the losses' own gradients in
/// place of ones, or empty. Errors: those of the ops.
mlir::FailureOr<Seeds> scaledSeeds(mlir::ModuleOp module, const Registry &registry, mlir::ArrayRef<mlir::Value> losses,
                                   mlir::ArrayRef<mlir::Value> given, const LossScale &scale);

/// Adds what updates the variables once a step: for each variable with a gradient an update op ("<variable>_optimizer")
/// and the variables that hold its state ("<variable>-m"); "train_step", which counts steps; the learning rate. An op
/// that writes a variable runs after all that read it. `lossScale` is that of the seeds. Errors: OPC0507 (a group that
/// names no variable, a variable in two groups or of a type that no update takes), and those of the ops.
mlir::LogicalResult addTraining(mlir::ModuleOp module, const Registry &registry, const TrainingConfig &config,
                                const std::vector<GeneratedGradient> &gradients, mlir::Value lossScale);

/// Replaces what backward ops read of the chosen forward ops by clones that run during the backward pass. Ops that are
/// not pure (dropout's mask) are never cloned. Returns how many ops were cloned.
mlir::FailureOr<size_t> recompute(mlir::ModuleOp module, const RecomputeConfig &config);

} // namespace opc
