// A module and what was planned for it -> the facts of the graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ExecutionSchedule.h"
#include "GraphFacts.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Inputs, outputs, variables and ops.
void collectGraph(mlir::ModuleOp module, GraphFacts *facts);
/// What each of the ops of collectGraph() costs, where its shapes are known.
void collectCosts(mlir::ModuleOp module, GraphFacts *facts);
/// The sums of what has been collected.
void sumCosts(GraphFacts *facts);
/// The shapes of what a rank's ops make, by tensor.
std::map<std::string, Shape> piecesOf(mlir::ModuleOp part);
/// Says of each region why it has no machine code; compiles it to know.
void addRegionCode(const ExecutionSchedule &execution, FusionFacts *facts);
void collectTasks(const ExecutionSchedule &execution, GraphFacts *facts);
PartFacts partFact(const ExecutionSchedule &execution);
MemoryFacts memoryFacts(const ExecutionSchedule &execution);

} // namespace opc
