// The graph of a module: one function with one block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// The graph's ops in order.
mlir::Block &graphBlock(mlir::ModuleOp module);

/// Takes the training configuration out of the module's `opc.job`: a graph that has been given its training ops
/// must not be given them again.
void forgetTraining(mlir::ModuleOp module);

/// The op that alone reads `v`; null when there is none, or when somebody else reads `v`.
inline ir::UserOp onlyReader(mlir::Value v) {
  return v.hasOneUse() ? llvm::dyn_cast<ir::UserOp>(*v.user_begin()) : ir::UserOp();
}

} // namespace opc
