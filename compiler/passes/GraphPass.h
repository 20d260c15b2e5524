// What all passes are: over a graph, and with exceptions that stay inside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <exception>
#include <utility>

namespace opc {

/// MLIR is compiled without exceptions: one that went through its frames would leave what they hold. A pass that throws
/// fails, and who ran the passes throws it again.
class GraphPass : public mlir::OperationPass<mlir::ModuleOp> {
public:
  using OperationPass::OperationPass;

protected:
  virtual void runOnGraph() = 0;
  void runOnOperation() final {
    try {
      runOnGraph();
    } catch (...) {
      thrown() = std::current_exception();
      signalPassFailure();
    }
  }

private:
  friend void throwAgain();
  static std::exception_ptr &thrown() {
    thread_local std::exception_ptr exception;
    return exception;
  }
};

/// After passes have failed, on the thread that ran them: throws what one of them threw. Nothing when none did.
inline void throwAgain() {
  if (std::exception_ptr exception = std::exchange(GraphPass::thrown(), nullptr)) std::rethrow_exception(exception);
}

} // namespace opc
