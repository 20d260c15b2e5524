// The opc dialect's C++ classes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>
#include <shared_mutex>

namespace opc::ir {
/// An attribute as the SDK's value; empty for one that no AttrValue maps to.
AttrValue fromMlir(mlir::Attribute attr);
} // namespace opc::ir

#include "OpcDialect.h.inc"

namespace opc::ir {
/// On an opc.user_op: the names of the ops that must run before it (OperatorConf.ctrl_in_op_name).
constexpr llvm::StringLiteral kCtrlInAttr = "opc.ctrl_in";
/// On an opc.user_op: another op's `opc.ctrl_in` names it, so it stays and keeps its name.
constexpr llvm::StringLiteral kOrderedAttr = "opc.ordered";
} // namespace opc::ir

#define GET_TYPEDEF_CLASSES
#include "OpcTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "OpcAttrs.h.inc"

#define GET_OP_CLASSES
#include "OpcOps.h.inc"

namespace opc::ir {
/// On a module: the placements of a graph for several ranks, each a pair of lists (mesh dimensions, ranks).
constexpr llvm::StringLiteral kPlacementsAttr = "opc.placements";
/// On an op: the index of its placement; absent: 0.
constexpr llvm::StringLiteral kPlacementAttr = "opc.placement";
/// On an op of a logical graph: the state of each operand, then of each result ("S(0)", "[S(0), B]").
constexpr llvm::StringLiteral kStatesAttr = "opc.sbp";
/// On an op of a rank's graph: for each operand, then each result, the placement, the states (an axis, -1 for B, -2 for
/// P) and the dimensions of the whole tensor.
constexpr llvm::StringLiteral kShardingAttr = "opc.sharding";
/// On an op: the states that the graph file asks for its operands, then its results; "" for none.
constexpr llvm::StringLiteral kHintsAttr = "opc.hints";
/// On an op of a composite: its parts are no pieces of a whole by the op's own signatures (maxima of pieces); each rank
/// runs it on what it has.
constexpr llvm::StringLiteral kLocalAttr = "opc.local";
/// On an opc.boxing: its place in the one order that all ranks keep.
constexpr llvm::StringLiteral kOrderAttr = "opc.order";
/// On tasks of a pipeline: micro-batches behind the first op of the rank; of a boxing between stages also the source's.
constexpr llvm::StringLiteral kLagAttr = "opc.lag";
constexpr llvm::StringLiteral kSourceLagAttr = "opc.source_lag";
/// On tasks that run in the last of so many micro-batches alone.
constexpr llvm::StringLiteral kStrideAttr = "opc.stride";

/// The definition of a user op that the registry knows; else null.
inline const user_op::OpDef *definitionOf(mlir::Operation *op) {
  auto user = llvm::dyn_cast<UserOp>(op);
  return user ? user.def() : nullptr;
}

/// What becomes a task of the plan.
inline bool isTask(mlir::Operation *op) { return llvm::isa<UserOp, BoxingOp>(op); }
} // namespace opc::ir
