// IR between two phases as a file that a later compilation goes on from (`--from`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PhysicalGraph.h"
#include "Pipeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace opc {

/// What IR says of itself, in the location of its module.
struct SavedState {
  std::string graph;   // the name that plans and diagnostics have for it
  std::string phase;   // after which it was written
  std::string pending; // what later phases were asked for, and the IR does not say; none: nothing
  int64_t microBatches = 1;
};

SavedState savedState(const std::string &graph, Phase phase, const CompileOptions &options);

/// The module, with the graphs of ranks where there are any, as text or bytecode, complete. The state becomes the
/// location of what is written.
std::string savedModule(mlir::ModuleOp module, const PhysicalGraphs &ranks, const SavedState &state, bool asBytecode);

/// Reads what savedModule() wrote after `after` for the mesh of the options (none: one device), and sets `name`, of the
/// file, to the graph's. Without `after` any phase will do, which `reached` gets, and where the options have no mesh
/// they get that of the IR. Null, with a diagnostic of ours or of MLIR, for anything else: other files, other phases
/// and versions, IR that does not verify.
mlir::OwningOpRef<mlir::ModuleOp> readSavedModule(mlir::MLIRContext *context, std::string *name,
                                                  const std::string &bytes, std::optional<Phase> after,
                                                  CompileOptions *options, Phase *reached);

} // namespace opc
