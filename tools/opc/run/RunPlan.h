// From what a run was given to a plan: compiled when it is a graph, cut when a part of it was asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Failure.h"
#include "GraphInput.h"
#include "GraphValues.h"
#include "Invocation.h"
#include "ModelSource.h"
#include "RunOptions.h"
#include "RunTrace.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace opc::cli {

class RunPlanner {
public:
  /// `trace` may be nullptr.
  RunPlanner(Invocation &invocation, RunOptions &options, const Registry &registry, RunTrace *trace)
      : invocation_(invocation), options_(options), registry_(registry), trace_(trace) {}

  /// The plan's bytes. `inputs` gets the values of --feed and loses those that the cut graph does not want. The graph's
  /// bytes stay in `input` only for referencePlan().
  Outcome<SharedBytes> plan(GraphInput &input, NamedValues &inputs);
  /// How many examples a batch has; 0: as many as the graph says.
  struct Batch {
    int64_t size = 0;
    int64_t ofOpen = 0; // where neither says it
  };
  /// The plan of a training step, or of what is validated: data sets feed the inputs in batches.
  Outcome<std::string> planBatches(GraphInput &input, const NamedValues &inputs, const std::vector<DataSet> &dataSets,
                                   Batch batch);
  /// The graph is for one rank and trains nothing, whatever the run does.
  void planForwardAlone() { isForwardAlone_ = true; }
  /// The same graph, cut the same way, compiled as plainly as can be: nothing merged, folded or done in place;
  /// floating-point tensors in the type `floatsAs`, if that is one.
  Outcome<std::string> referencePlan(const GraphInput &input, DataType floatsAs = kInvalidDataType);
  /// The same graph, cut the same way, for a mesh, with every tensor as an output of its name.
  Outcome<std::string> everyTensorPlan(const GraphInput &input, const MeshRequest &mesh);

  const Json &phases() const { return phases_; }
  const std::string &phasesText() const { return phasesText_; }
  /// Of the graph, for a report; of a plan those that it says. Errors: those of reading the plan.
  Result<GraphFacts> facts(std::string_view plan);
  const std::vector<std::string> &notes() const { return notes_; }
  /// Of variables whose values came with the graph (an ONNX model).
  const std::map<std::string, StoredTensor> &modelValues() const { return modelValues_; }

private:
  Status checkPlanFile(const GraphInput &input) const;
  /// Imports, has `bind` say what is known of the graph (shapes_, cut_), and compiles.
  Outcome<std::string> compile(GraphInput &input, const std::function<Status(Pipeline &, const GraphFacts &)> &bind,
                               NamedValues *inputs);
  /// Of a model, whose import needs all shapes and what decides them: what the given values say. Values that it takes
  /// become part of the model. Nothing for what cannot be imported: the pipeline says why.
  Result<std::optional<ModelSource>> bindModel(GraphInput &input, NamedValues &inputs, CompileOptions *options);
  Status bindValues(Pipeline &pipeline, const GraphFacts &whole, NamedValues &inputs);
  /// Finds what was asked for and has the pipeline drop what that does not need.
  std::vector<std::string> outputsAskedFor() const;
  /// All that the cut leaves, where it leaves whole tensors: what they do not need may be unknown.
  std::vector<std::string> wanted() const;
  Status cut(Pipeline &pipeline, const GraphFacts &whole, NamedValues &inputs);
  Status bindDataSets(const GraphInput &input, const GraphFacts &whole, const NamedValues &inputs,
                      const std::vector<DataSet> &dataSets, Batch batch);
  CompileOptions withProgress(CompileOptions options, const std::string &what) const;
  Failure failure(const Pipeline &pipeline) const;
  /// The same graph, cut the same way.
  Outcome<std::string> again(const GraphInput &input, CompileOptions options,
                             const std::function<bool(Pipeline &)> &change = {});

  Invocation &invocation_;
  RunOptions &options_;
  const Registry &registry_;
  RunTrace *trace_;
  bool isForwardAlone_ = false;
  GraphCut cut_;
  std::map<std::string, std::vector<int64_t>> shapes_; // given, and those of the values
  Json phases_ = Json::array();
  std::string phasesText_;
  std::vector<std::string> notes_;
  std::map<std::string, StoredTensor> modelValues_;
  std::optional<GraphFacts> facts_; // where a report wants them
};

} // namespace opc::cli
