// From what a run was given to a plan: compiled when it is a graph, cut when a part of it was asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphInput.h"
#include "GraphValues.h"
#include "Invocation.h"
#include "JsonOutput.h"
#include "RunCut.h"
#include "RunTrace.h"
#include "ValueGiver.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

class RunPlanner {
public:
  /// `trace` may be nullptr.
  RunPlanner(Invocation &invocation, const Registry &registry, RunTrace *trace)
      : invocation_(invocation), registry_(registry), trace_(trace) {}

  /// The plan's bytes. On failure `exitCode` is set and the reason has been reported. `inputs` gets the values of
  /// --feed and loses those that the cut graph does not want. The graph's bytes stay in `input` only with `keepGraph`.
  std::string plan(GraphInput &input, const CompileOptions &options, CutFlags &cut, NamedValues &inputs,
                   const ValueFlags &values, bool keepGraph, int *exitCode);
  /// The same graph, cut the same way, compiled as plainly as can be: nothing merged, folded or done in place.
  std::string referencePlan(const GraphInput &input, CompileOptions options, int *exitCode);

  const Json &phases() const { return phases_; }
  const std::string &phasesText() const { return phasesText_; }
  const std::vector<std::string> &notes() const { return notes_; }

private:
  int failed(const Pipeline &pipeline);

  Invocation &invocation_;
  const Registry &registry_;
  RunTrace *trace_;
  GraphCut cut_;
  std::map<std::string, std::vector<int64_t>> shapes_; // as the first compilation found them
  Json phases_ = Json::array();
  std::string phasesText_;
  std::vector<std::string> notes_;
};

} // namespace opc::cli
