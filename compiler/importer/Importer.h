// Graph file -> opc dialect.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFile.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>

namespace opc {

struct ImportOptions {
  /// Shapes by input or variable op name; they replace the graph's.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Set to a floating-point type: inputs, variables and dtype attributes of any floating-point type get that one.
  DataType floatsAs = kInvalidDataType;
};

/// Builds a module with one function `@graph`. Ops come in an order that depends on what they compute, neither
/// on their names nor on the order of the file. All errors go to `diagnostics`; null on error.
mlir::OwningOpRef<mlir::ModuleOp> importGraph(mlir::MLIRContext *ctx, const Registry &registry, const GraphFile &file,
                                              const ImportOptions &options, std::vector<Diagnostic> *diagnostics);

} // namespace opc
