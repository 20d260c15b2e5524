// Simplification: constant folding, no-op removal, common subexpressions, dead code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace opc {

/// Results larger than this are computed at run time and not stored in the plan.
constexpr int64_t kMaxFoldedBytes = 1 << 20;

struct SimplifyOptions {
  /// Fold only what a graph file can hold: constants whose elements are all equal.
  bool splatConstantsOnly = false;
};

/// Runs all simplifications to a fixed point (each is one pass over the ops in order). Ops need inferred types.
mlir::LogicalResult simplify(mlir::ModuleOp module, const Registry &registry, const SimplifyOptions &options = {});

std::unique_ptr<mlir::Pass> createFoldConstantsPass(const Registry &registry);
std::unique_ptr<mlir::Pass> createRemoveNoOpsPass(const Registry &registry);
std::unique_ptr<mlir::Pass> createEliminateDeadOpsPass();

} // namespace opc
