// The one constant folder: ops whose operands are known are run, on the kernels that would run them later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"
#include "Registry.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace opc {

struct FoldLimits {
  /// Results larger than this are computed at run time and not stored in the plan.
  int64_t maxBytes = 1 << 20;
  /// Fold only what a graph file can hold: constants whose elements are all equal.
  bool splatsOnly = false;
};

/// The results of an op whose operands are all constants; nothing when it has effects, when its types are not known,
/// when it has no CPU kernel, when the kernel fails, or when the results are larger than the limits allow.
std::optional<llvm::SmallVector<mlir::DenseElementsAttr>> evaluate(ir::UserOp op, const Registry &registry,
                                                                   const FoldLimits &limits);

/// Replaces what can be evaluated by constants, in order, so that chains fold. Returns the number of ops replaced.
size_t foldConstants(mlir::ModuleOp module, const Registry &registry, const FoldLimits &limits);

} // namespace opc
