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
  /// Ops and tensors that are all that is asked for. What they do not depend on may have ops of unknown types.
  std::vector<std::string> wanted;
  /// Globs of names and types of ops that run on the CPU, whatever their device_tag says. Each must fit one.
  std::vector<std::string> onCpu;
  /// Whether the graph is compiled for a GPU: then ops may ask for one.
  bool isForGpu = false;
};

/// A graph file on its way into the dialect. All errors go to `diagnostics`.
class GraphImport {
public:
  GraphImport(mlir::MLIRContext *ctx, const Registry &registry, std::unique_ptr<GraphFile> file, ImportOptions options,
              std::vector<Diagnostic> *diagnostics);
  ~GraphImport();

  /// A module with one function `@graph`. Ops come in an order that depends on what they compute, neither on their
  /// names nor on the order of the file. Null on error.
  mlir::OwningOpRef<mlir::ModuleOp> module();
  /// Replaces ImportOptions::shapes in the module that was made, which has at most been pruned since.
  void setShapes(std::map<std::string, std::vector<int64_t>> shapes);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace opc
