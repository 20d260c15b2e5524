// Ops that a library computes in one call become one op, and images keep the layout that the library likes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace opc {

/// All library fusions (docs/adr/0006-library-fusion.md). A result that anybody else reads, or that is an output, stays
/// a tensor of its own. Does nothing to a graph that trains.
/// Ops need inferred types.
void fuseForLibraries(mlir::ModuleOp module);

/// conv2d, bias_add, normalization with stored statistics, addition of a tensor, relu or clip -> fused_conv2d (f32).
void fuseConvolutions(mlir::ModuleOp module);
/// fused_conv2d, pooling and elementwise ops between them work on channels_last images; transposes stand where other
/// ops begin.
void keepChannelsLast(mlir::ModuleOp module);

std::unique_ptr<mlir::Pass> createFuseConvolutionsPass();
std::unique_ptr<mlir::Pass> createKeepChannelsLastPass();

} // namespace opc
