// The facts of a graph, plan or lock file that a command was given: read, compiled as far as it goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphComparison.h"
#include "GraphInput.h"
#include "Invocation.h"
#include "Lock.h"
#include "ModelFlags.h"

#include <memory>
#include <optional>
#include <set>
#include <string>

namespace opc::cli {

struct FactsRequest {
  std::optional<MeshRequest> mesh;
  bool asPlanned = false;            // the ops that run, as a plan has them, in place of those that are written
  bool withPlan = false;             // FactsInput::plan
  const ModelFlags *model = nullptr; // for those that are models
};

struct FactsInput {
  std::string name; // what reports call it
  bool isPlan = false, isLock = false, isIr = false;
  bool hasConstants = true;       // of a model; locks of earlier builds have none
  std::set<LockSection> detailed; // of a lock
  GraphFacts facts;
  ComparisonOptions known; // what can be compared: of a lock the sections that it has
  std::unique_ptr<Registry> registry;
  std::string plan;      // the bytes of its file, where it was asked for and there is one
  std::string undecided; // why there is neither plan nor cost; empty when there are
};

/// The ops of the graph with those of its training step, and what was decided for them. A graph that is valid and
/// cannot be planned here (a kernel is missing, an input's size is open) has its ops alone.
Outcome<FactsInput> factsOf(Invocation &invocation, GraphInput input, const FactsRequest &request);

/// The same of a pipeline that has imported a graph without open inputs; nothing when a phase up to the plan of the
/// memory failed.
std::optional<GraphFacts> factsOf(Pipeline *pipeline);

/// What is known after the phases that have run, with the graph's constants as ops. Of several values one has their
/// digest, the attribute `values`.
GraphFacts factsWithConstants(const Pipeline &pipeline, bool costs = false);

/// Before the two are compared: constants that `other` has as variables, as a graph file has those of several values,
/// become variables.
void takeConstantsAsVariables(const GraphFacts &other, GraphFacts *facts);
/// The same, of a lock without the constants of a model.
void forgetConstants(const GraphFacts &locked, GraphFacts *facts);

/// Whether an op is of graphs: if, loop.
bool hasInnerGraphs(const GraphFacts &facts);
/// Takes the places out of the graphs in ops (if, loop): they name the model's file.
void forgetInnerPlaces(GraphFacts *facts);
/// Before a lock is compared: takes out of both what a lock of an earlier build does not hold of ops.
void forgetWhatLockLacks(const std::set<LockSection> &detailed, GraphFacts *locked, GraphFacts *facts);

/// Gives each variable whose values came with the graph (an ONNX model) their digest in place of an initializer.
void digestValues(const Pipeline &pipeline, GraphFacts *facts);
bool haveDigests(const GraphFacts &facts);

/// Whether it is a lock file by its first bytes.
bool looksLikeLock(const GraphInput &input);

/// The facts that a lock file holds, and the mesh that they are for (nothing for one device). Errors: OPC0120.
Result<FactsInput> factsOfLock(const GraphInput &input, std::optional<MeshRequest> *mesh);

/// Gives ops of a lock their definitions' defaults for attributes that they lack: an earlier opc, or plugin, had none.
void completeAttributes(const Registry &registry, GraphFacts *facts);

/// Takes from a graph's facts what a plan does not say, before the two are compared.
void forgetWhatPlansLack(GraphFacts *facts);
/// Takes what digestValues() gave, before they are compared with those of a graph that holds no values.
void forgetDigests(GraphFacts *facts);

} // namespace opc::cli
