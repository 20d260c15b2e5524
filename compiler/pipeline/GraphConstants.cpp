// The constants of a graph that a pipeline has.
// SPDX-License-Identifier: Apache-2.0
#include "GraphConstants.h"
#include "ConstantVariables.h"

#include "AttrBridge.h"
#include "Graph.h"
#include "GraphBuilder.h"
#include "Locations.h"
#include "OpcDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace opc {
std::map<std::string, StoredTensor> graphConstants(Pipeline &pipeline, const Registry &registry) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect>();
  context.getOrLoadDialect<ir::OpcDialect>()->setRegistry(&registry);
  const std::string bytes = pipeline.emit(Emit::kMlirBytecode);
  if (bytes.empty()) return {}; // the pipeline says why
  const OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(bytes, ParserConfig(&context));
  std::map<std::string, StoredTensor> constants;
  if (!module) return constants;
  for (ir::ConstantOp op : graphBlock(*module).getOps<ir::ConstantOp>())
    constants.emplace(ir::tensorName(op.getOut()), storedValue(op));
  return constants;
}

} // namespace opc
