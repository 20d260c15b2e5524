// Constants of the IR as values, and as variables.
// SPDX-License-Identifier: Apache-2.0
#include "ConstantVariables.h"

#include "AttrBridge.h"
#include "Graph.h"
#include "GraphEmitter.h"
#include "Locations.h"

using namespace mlir;

namespace opc {

StoredTensor storedValue(ir::ConstantOp op) {
  const auto value = std::make_shared<const std::string>(ir::denseToBytes(cast<DenseElementsAttr>(op.getValue())));
  return {ir::descOf(op.getOut()), *value, value};
}

void makeConstantsVariables(ModuleOp module, std::map<std::string, StoredTensor> *values) {
  std::map<std::string, int> uses;
  for (Operation &op : graphBlock(module)) ++uses[ir::opName(&op)];
  for (ir::ConstantOp op : llvm::make_early_inc_range(graphBlock(module).getOps<ir::ConstantOp>())) {
    if (fitsGraphFile(cast<DenseElementsAttr>(op.getValue()))) continue;
    std::string name = ir::opName(op);
    if (--uses[name] > 0)
      for (int n = 2; uses.count(name); ++n) name = ir::opName(op) + "_" + std::to_string(n);
    ++uses[name];
    OpBuilder builder(op);
    auto variable = ir::VariableOp::create(builder, ir::renamed(op.getLoc(), name), op.getOut().getType(), name,
                                           /*trainable=*/false, ir::InitializerAttr(), IntegerAttr());
    values->insert_or_assign(name, storedValue(op));
    op.getOut().replaceAllUsesWith(variable.getOut());
    op.erase();
  }
}

} // namespace opc
