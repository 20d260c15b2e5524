// Backward ops that compute again what forward ops have computed (--recompute), on the stages of a pipeline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"

namespace opc {

/// Pure ops of the backward pass that are equal to a forward op on equal inputs, each with that op.
llvm::DenseMap<mlir::Operation *, mlir::Operation *> repeatedOps(mlir::Block &block);

/// Ops of a placement in which a repeated op is not read the forward op's result: it has come there in the forward
/// pass, and to wait for its stage in the backward pass, which waits for them, would be to wait for ever. Repeated ops
/// that nobody reads any more go, and are taken out of both maps. `place`: the placement of each op.
void readFirstResults(mlir::Block &block, llvm::DenseMap<mlir::Operation *, mlir::Operation *> *repeated,
                      llvm::DenseMap<mlir::Operation *, uint32_t> *place);

} // namespace opc
