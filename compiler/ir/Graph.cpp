// The graph of a module: one function with one block.
// SPDX-License-Identifier: Apache-2.0
#include "Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace opc {

Block &graphBlock(ModuleOp module) { return (*module.getOps<func::FuncOp>().begin()).getBody().front(); }

} // namespace opc
