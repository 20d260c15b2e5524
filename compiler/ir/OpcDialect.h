// The opc dialect's C++ classes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NdSbp.h"
#include "Registry.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>
#include <shared_mutex>

namespace opc::ir {
/// An attribute as the SDK's value; empty for one that no AttrValue maps to.
AttrValue fromMlir(mlir::Attribute attr);
} // namespace opc::ir

#include "OpcDialect.h.inc"
#include "OpcEnums.h.inc"

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

namespace opc::ir {
/// The states of several tensors, "[S(0), [B, P]]".
mlir::ParseResult parseStates(mlir::OpAsmParser &parser, mlir::ArrayAttr &list);
void printStates(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ArrayAttr list);
} // namespace opc::ir

#define GET_OP_CLASSES
#include "OpcOps.h.inc"

namespace opc::ir {
// What passes attach to ops. DiscardableAttributes.cpp verifies each; a new one is added there.
/// On a module: what the graph file says beside its ops, an #opc.job.
constexpr llvm::StringLiteral kJobAttr = "opc.job";
/// On a module: the #opc.placement of a graph for several ranks.
constexpr llvm::StringLiteral kPlacementsAttr = "opc.placements";
/// On an op: the index of its placement; absent: 0.
constexpr llvm::StringLiteral kPlacementAttr = "opc.placement";
/// On an op of a logical graph: the #opc.state of each operand, then of each result.
constexpr llvm::StringLiteral kStatesAttr = "opc.sbp";
/// On an op of a rank's graph: the #opc.sharding of each operand, then of each result.
constexpr llvm::StringLiteral kShardingAttr = "opc.sharding";
/// On an op: further states that each of its results is made in, lists of #opc.state; and where results go to other
/// placements, [result, placement, #opc.state].
constexpr llvm::StringLiteral kCopiesAttr = "opc.copies";
constexpr llvm::StringLiteral kTransfersAttr = "opc.transfers";
/// On an op: the #opc.state that the graph file asks for each operand, then each result. A unit stands for none, a
/// string for a text that is no state.
constexpr llvm::StringLiteral kHintsAttr = "opc.hints";
/// On an op of the backward pass, and the constant that it has become: the name of the op of whose gradient it is part.
constexpr llvm::StringLiteral kGradientOfAttr = "opc.gradient_of";
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
/// On a task that reads only what is the same in every run: it runs once, before the first step.
constexpr llvm::StringLiteral kPreparedAttr = "opc.prepared";
/// What the memory plan shows: the offsets of an op's results, and on a module the size of the arena.
constexpr llvm::StringLiteral kOffsetsAttr = "opc.offsets";
constexpr llvm::StringLiteral kArenaBytesAttr = "opc.arena_bytes";

/// What an op of the graph is for.
inline Role roleOf(mlir::Operation *op) {
  if (auto user = llvm::dyn_cast<UserOp>(op)) return user.getRole();
  if (auto constant = llvm::dyn_cast<ConstantOp>(op)) return constant.getRole();
  return Role::kForward;
}
inline void setRole(mlir::Operation *op, Role role) {
  if (auto user = llvm::dyn_cast<UserOp>(op)) user.setRole(role);
  if (auto constant = llvm::dyn_cast<ConstantOp>(op)) constant.setRole(role);
}

/// The definition of a user op that the registry knows; else null.
inline const user_op::OpDef *definitionOf(mlir::Operation *op) {
  auto user = llvm::dyn_cast<UserOp>(op);
  return user ? user.def() : nullptr;
}

/// What becomes a task of the plan.
inline bool isTask(mlir::Operation *op) { return llvm::isa<UserOp, BoxingOp, FusedOp>(op); }
} // namespace opc::ir
