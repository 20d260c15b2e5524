// Between the graphs in ops (if, loop, batch_parts), which are texts, and modules that passes can read and change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace opc {

/// Reading and writing need folders that passes do not know: who makes the passes gives them one of these.
class GraphTexts {
public:
  virtual ~GraphTexts() = default;
  /// A graph of `op` with its types inferred, in the op's context; inputs and outputs keep their order. Null after an
  /// error, which has been reported at the op.
  virtual mlir::OwningOpRef<mlir::ModuleOp> read(ir::UserOp op, const std::string &text) const = 0;
  /// "" after an error, which has been reported at the op.
  virtual std::string write(ir::UserOp op, mlir::ModuleOp graph) const = 0;
};

} // namespace opc
