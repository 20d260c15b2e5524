// A phase as input of opc-opt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// The IR before a phase, below comments with the phase's name and the command that runs its passes. With `parts`, the
/// ranks' graphs, it is theirs, in one module.
std::string phaseSource(Phase phase, mlir::ModuleOp module, llvm::ArrayRef<mlir::OwningOpRef<mlir::ModuleOp>> parts,
                        const CompileOptions &options);

} // namespace opc
