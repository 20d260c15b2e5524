// The graph of a module: one function with one block.
// SPDX-License-Identifier: Apache-2.0
#include "Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace opc {

Block &graphBlock(ModuleOp module) { return (*module.getOps<func::FuncOp>().begin()).getBody().front(); }

void forgetTraining(ModuleOp module) {
  auto job = module->getAttrOfType<ir::JobAttr>(ir::kJobAttr);
  if (!job) return;
  if (job.getRest().empty())
    module->removeAttr(ir::kJobAttr);
  else
    module->setAttr(ir::kJobAttr,
                    ir::JobAttr::get(module.getContext(), StringAttr::get(module.getContext()), job.getRest()));
}

} // namespace opc
