// States that the user has decided: pins of the command line and hints of the graph file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MeshRequest.h"
#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <utility>
#include <vector>

namespace opc {

class StatePins {
public:
  /// The decided states of one op: by slot, operands first, then results. `text` says who decided, for errors.
  struct OpPins {
    std::vector<std::pair<unsigned, NdSbp>> states;
    std::string text;
    bool isAsked = false; // --sbp has decided one of them
  };

  StatePins(mlir::ModuleOp module, const MeshRequest &request);
  /// Whether every decision is for the mesh that there is (OPC0311).
  mlir::LogicalResult check();
  OpPins of(mlir::Operation *op);
  /// Whether every pin named something (OPC0311).
  mlir::LogicalResult checkUsed();

private:
  mlir::ModuleOp module_;
  const MeshRequest &request_;
  std::vector<bool> used_;
};

} // namespace opc
