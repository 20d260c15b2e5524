// Cutting a graph: stop at a tensor, begin at a tensor, keep some ops alone (`opc run --until, --feed, --only`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PassRequests.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Erases what no part that `cut` keeps depends on. Tensors need no types: what is not asked for need not be valid, and
/// its inputs need no shapes. What a fed tensor depends on stays, since the tensor's type follows from it. A name that
/// does not exist is an error (OPC0005).
mlir::LogicalResult pruneGraph(mlir::ModuleOp module, const GraphCut &cut);

/// Cuts a graph whose tensors have types. Names are those of the graph, and the caller has checked that they exist; one
/// that does not is an error (OPC0005).
///
/// `feeds`: each of these tensors becomes an input of the same name, so that nothing that only it needs is run.
/// `until`: (tensor, name): these tensors are the outputs, and the graph's own are dropped.
/// `only`: these ops are kept. What they read of others becomes an input, called as the tensor is; what others, or
/// nobody, read of them becomes an output. All three work together. Everything that no output needs is then erased.
mlir::LogicalResult cutGraph(mlir::ModuleOp module, const GraphCut &cut);

} // namespace opc
