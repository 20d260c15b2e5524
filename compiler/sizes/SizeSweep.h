// A graph at many sizes of a range: what its shapes are, and what must hold at all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"
#include "SizeFit.h"
#include "SizeRequest.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace opc {

/// What is true of a graph at all the sizes that were looked at.
struct SizeFacts {
  std::vector<SizeRange> sizes;
  /// Of values whose shapes depend on the sizes: an expression for each dimension.
  llvm::DenseMap<mlir::Value, std::vector<SizeExpression>> shapes;
  /// By task: the largest workspace, and the (output, input) pairs that its kernels may compute in place.
  llvm::DenseMap<mlir::Operation *, uint64_t> workspace;
  llvm::DenseMap<mlir::Operation *, std::vector<std::pair<int, int>>> inPlace;
};

/// Sizes that are looked at: the largest first; then the smallest; each one by itself over its whole range where that
/// has at most `most` values, else over some of them; and several at once.
std::vector<std::vector<int64_t>> sampleSizes(const std::vector<SizeRange> &sizes, size_t most);

/// Gives inputs, and by the ops' own rules every other tensor, the shapes for these sizes. What a rule refuses is
/// emitted at its op, with the sizes.
mlir::LogicalResult setSizes(mlir::ModuleOp module, const SizeRequest &request, const std::vector<int64_t> &sizes);

/// Looks at the whole range; the types are those of the largest sizes afterwards. Emits OPC0220 for shapes that are no
/// expressions, and what rules and kernels refuse.
mlir::LogicalResult sweepSizes(mlir::ModuleOp module, const Registry &registry, const SizeRequest &request,
                               SizeFacts *facts);

/// "n = 7, m = 3".
std::string sizesText(const std::vector<SizeRange> &sizes, const std::vector<int64_t> &values);

} // namespace opc
