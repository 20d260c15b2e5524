// Which ops of a graph are worth computing for one part of the batch after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <vector>

namespace opc {

/// Ops that follow each other in the graph, each of which computes a sample from samples.
struct BatchWalk {
  std::vector<ir::UserOp> ops; // in the order of the graph
  int64_t parts = 1;           // equal ones, which the batch is cut into

  bool contains(mlir::Operation *op) const { return inside.contains(op); }
  llvm::SmallPtrSet<mlir::Operation *, 32> inside;
};

/// The walks that save traffic, disjoint, in the order of the graph.
std::vector<BatchWalk> findWalks(mlir::Block &block);
/// What every part of a walk reads whole: weights and other tensors that no run changes.
bool isSameInAllParts(mlir::Value v);
/// The op's attributes in one of `parts` parts: a shape that says what its result is says what a part of it is.
mlir::DictionaryAttr attrsOfPart(ir::UserOp op, int64_t parts);

} // namespace opc
