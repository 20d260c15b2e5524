// Which tensors a gradient passes through on its way from the losses to the wanted tensors, and where it stops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace opc {

class GraphTexts;

/// Of ops with graphs (if, loop): on which operands each result depends; by result, then by operand.
using ControlDependences = llvm::DenseMap<mlir::Operation *, std::vector<std::vector<bool>>>;

/// The ops that lie between wanted tensors and losses, in the graph's order, and the tensors between them.
class GradientFlow {
public:
  /// `texts`: null where ops with graphs carry nothing. `known`: what other flows of the module have found out.
  GradientFlow(mlir::ModuleOp module, mlir::ArrayRef<mlir::Value> losses, mlir::ArrayRef<mlir::Value> wanted,
               const GraphTexts *texts, ControlDependences *known = nullptr);
  /// True when the tensor depends on a wanted one and a loss depends on it, differentiably.
  bool carries(mlir::Value v) const { return active_.contains(v) && useful_.contains(v); }
  /// True when the op lets a gradient through to this operand (its definition may say that it does not).
  bool passes(ir::UserOp op, unsigned operand) const;
  const std::vector<ir::UserOp> &path() const { return path_; }
  /// Why no gradient passes the op to the operand; "" when it does.
  std::string blocked(ir::UserOp op, unsigned operand) const;

private:
  bool activates(ir::UserOp op, const user_op::OpDef &def);
  bool reaches(ir::UserOp op, unsigned operand) const;

  const GraphTexts *texts_;
  ControlDependences *known_; // null: nothing is shared
  llvm::DenseSet<mlir::Value> active_, useful_;
  llvm::DenseMap<mlir::Operation *, std::vector<bool>> restricted_; // ops whose definition excludes some operands
  ControlDependences control_;                                      // of ops of this flow
  std::vector<ir::UserOp> path_;
};

} // namespace opc
