// A module and what was planned for it -> the facts of the graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ExecutionSchedule.h"
#include "GraphFacts.h"
#include "Registry.h"
#include "StoredTensor.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>

namespace opc {

/// Inputs, outputs, variables and ops.
void collectGraph(mlir::ModuleOp module, GraphFacts *facts);
/// The graph's constants among the ops of collectGraph(), where they stand, as a graph file has them: of type
/// `constant`. Those that it cannot hold have type and shape alone, and `values` gets what they hold, by name. With
/// `costs` after collectCosts().
void collectConstants(mlir::ModuleOp module, const Registry &registry, bool costs, GraphFacts *facts,
                      std::map<std::string, StoredTensor> *values);
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
