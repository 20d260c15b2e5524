// Which reads of variables see what the step has written: boxing would show them what was there before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseSet.h"

namespace opc {

/// Operands that are a variable that an op writes (or a view of one) and are read after that: by graph outputs, and by
/// ops that data or control put behind the write. They must be read in the state that the variable has. What views of
/// such variables read is among them. The writers' own operands are not.
llvm::DenseSet<mlir::OpOperand *> readsAfterWrites(mlir::Block &block);

} // namespace opc
