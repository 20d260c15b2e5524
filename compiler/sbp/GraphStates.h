// The states that ops of a logical graph carry, parsed once for each distinct attribute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NdSbp.h"
#include "OpcDialect.h"
#include "Placement.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace opc {

/// The graph's placements (`opc.placements`).
std::vector<Placement> readPlacements(mlir::ModuleOp module);
void writePlacements(mlir::ModuleOp module, const std::vector<Placement> &placements);
inline uint32_t placementOf(mlir::Operation *op) {
  auto attr = op->getAttrOfType<mlir::IntegerAttr>(ir::kPlacementAttr);
  return attr ? static_cast<uint32_t>(attr.getInt()) : 0;
}

/// A list of #opc.state.
mlir::ArrayAttr stateList(mlir::MLIRContext *context, llvm::ArrayRef<NdSbp> states);
inline NdSbp statesOf(mlir::Attribute state) { return llvm::cast<ir::StateAttr>(state).getStates(); }

class GraphStates {
public:
  /// Of each operand, then each result; empty for an op without states.
  const std::vector<NdSbp> &of(mlir::Operation *op);
  /// Of a result.
  const NdSbp &ofResult(mlir::OpResult value);

private:
  const std::vector<NdSbp> &read(mlir::ArrayAttr attr);
  llvm::DenseMap<mlir::Attribute, std::vector<NdSbp>> known_;
  std::vector<NdSbp> none_;
};

} // namespace opc
