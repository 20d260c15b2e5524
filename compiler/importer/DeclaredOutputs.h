// What a graph file says of its outputs, which the graph itself must bear out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFile.h"
#include "Importer.h"

#include "opc/DataType.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace opc {

/// An output_conf with a blob_conf.
struct DeclaredOutput {
  std::string name;
  SourceRange range;
  bool hasShape = false;
  std::vector<int64_t> dims;         // -1: any
  DataType dtype = kInvalidDataType; // kInvalidDataType: not said
};
std::vector<DeclaredOutput> declaredOutputs(const GraphFile &file);

/// OPC0203 and OPC0204 for outputs whose tensor, inferred by now, is another one. Where `options` gives inputs other
/// shapes than the file the dimensions may follow; where it gives tensors another type the type does.
void checkDeclaredOutputs(mlir::ModuleOp module, const std::vector<DeclaredOutput> &declared,
                          const ImportOptions &options, std::vector<Diagnostic> *diagnostics);

} // namespace opc
