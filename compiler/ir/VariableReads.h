// Which reads of variables see what the step has written: what is made for them must come after the write, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace opc {

/// The ops that write a variable before somebody reads it.
using WritersBefore = llvm::SmallVector<mlir::Operation *, 1>;

/// Operands that are a variable that an op writes (or a view of one) and are read after that, by graph outputs, and by
/// ops that data or control put behind the write; each with the ops that have then written it. What views of such
/// variables read is among them. The writers' own operands are not.
llvm::DenseMap<mlir::OpOperand *, WritersBefore> readsAfterWrites(mlir::Block &block);

/// The value of `opc.ctrl_in` for an op that is to run after these; null for none.
mlir::ArrayAttr behind(mlir::MLIRContext *context, const WritersBefore &writers);

} // namespace opc
