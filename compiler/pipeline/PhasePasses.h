// Which passes a phase has, and what is asked of a graph beside the phases: the one place that says it, for opc and for
// opc-opt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Passes.h"
#include "Pipeline.h"

#include "mlir/Pass/PassManager.h"

namespace opc {

/// Adds a phase's passes. Import, memory and plan have none (docs/adr/0013). What passes find out goes to `facts`, when
/// it is not null.
void populatePhase(Phase phase, mlir::OpPassManager &passes, const CompileOptions &options, GraphFacts *facts);

/// Adds the passes of all phases up to `to`, over the whole graph and, from boxing on, over the ranks' graphs in it.
void populatePipeline(Phase to, mlir::OpPassManager &passes, const CompileOptions &options, GraphFacts *facts);

/// What is no phase and changes a graph.
enum class Rewrite {
  kPrune, // what CompileOptions::cut leaves out goes, as far as that needs no shapes
  kTidy,  // simplified, for a file: what a graph file cannot hold is not folded
};
void populateRewrite(Rewrite rewrite, mlir::OpPassManager &passes, const CompileOptions &options);

} // namespace opc
