// Gradients of ops whose work is graphs of their own (if, loop): ops with graphs, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphBuilder.h"
#include "OpGraph.h"

#include <functional>

namespace opc {

/// What the generation of gradients knows around one op.
struct ControlHost {
  GraphBuilder &build;
  OpGraphs &graphs;
  std::function<mlir::Value(mlir::Value)> gradientOf;             // what has arrived for a result; null: nothing
  std::function<bool(unsigned)> wants;                            // whether a gradient of the operand is wanted
  std::function<mlir::LogicalResult(unsigned, mlir::Value)> give; // the gradient of an operand
};

/// An `if` on the same condition, whose graphs compute the vector-Jacobian products of the branches; what these need of
/// the branches they compute again.
mlir::LogicalResult differentiateIf(ir::UserOp op, const ControlHost &host);

/// A `loop` over the same turns from the last to the first, whose graph computes the vector-Jacobian product of a turn.
/// The states before each turn, as far as it reads them, are kept by a twin of the op. OPC0511: nothing bounds the
/// number of turns.
mlir::LogicalResult differentiateLoop(ir::UserOp op, const ControlHost &host);

} // namespace opc
