// The graphs of ops whose work is graphs of their own (if, loop, batch_parts), compiled to plans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "FusionFacts.h"
#include "GraphTexts.h"
#include "Pipeline.h"
#include "PlanEmitter.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>
#include <vector>

namespace opc {

/// Whether such ops can be compiled for the sizes that the options say: fixed ones (OPC0416).
bool checkControl(mlir::ModuleOp module, const CompileOptions &options);

/// How passes read and write such ops' graphs.
std::shared_ptr<const GraphTexts> controlTexts(const CompileOptions &options);

/// Compiles every graph of the module's ops as a graph of its own, whose inputs and outputs must be those of the op
/// (OPC0826). `name` is the graph's. False when one has an error; what was found is added to `findings`, or reported.
/// The tasks of `executions` learn what memory their graphs need. With `native` the graphs' loops get machine code.
bool compileControl(mlir::ModuleOp module, const Registry &registry, const CompileOptions &options,
                    const std::string &name, std::vector<Diagnostic> *findings,
                    std::vector<std::unique_ptr<ExecutionSchedule>> *executions, NativeEmitter *native,
                    ControlPlans *plans);

/// The same graphs once more, for what became of their ops. None where one cannot be compiled.
std::vector<FusionFacts::Graph> fusionOfGraphs(mlir::ModuleOp module, const Registry &registry,
                                               const CompileOptions &options, const std::string &name);

} // namespace opc
