// From what a run was given to a plan.
// SPDX-License-Identifier: Apache-2.0
#include "RunPlan.h"

#include "CompileReport.h"

namespace opc::cli {

namespace {

CompileOptions withProgress(CompileOptions options, Progress &progress, const std::string &what) {
  if (progress.shown())
    options.progress = [&progress, what](Phase phase) { progress.begin(what + ": " + phaseName(phase)); };
  return options;
}

} // namespace

int RunPlanner::failed(const Pipeline &pipeline) {
  invocation_.progress().clear();
  return invocation_.fail(pipeline.diagnostics(), pipeline.errorCount(), pipeline.errorClass(), pipeline.source());
}

std::string RunPlanner::plan(GraphInput &input, const CompileOptions &given, CutFlags &cutFlags, NamedValues &inputs,
                             const ValueFlags &values, bool keepGraph, int *exitCode) {
  auto fail = [&](const Status &s) {
    invocation_.progress().clear();
    *exitCode = invocation_.fail(s);
    return std::string();
  };
  if (input.isPlan) {
    if (!given.shapes.empty())
      return fail(
          usageError("--shape has no effect on a plan: its shapes are fixed", "compile the graph again with --shape"));
    if (cutFlags.any())
      return fail(usageError("--until, --feed and --only need the graph, and " + input.name + " is a plan",
                             "run the graph itself"));
    return std::move(input.bytes);
  }
  CompileOptions options = withProgress(given, invocation_.progress(), "compiling");
  double start = trace_ ? trace_->now() : 0;
  auto pipeline = std::make_unique<Pipeline>(registry_, options);
  auto failedHere = [&] {
    *exitCode = failed(*pipeline);
    return std::string();
  };
  if (!pipeline->import(input.name, input.bytes)) return failedHere();
  const GraphInfo whole = pipeline->graph();
  if (cutFlags.any()) {
    Result<GraphCut> cut = cutFlags.resolve(whole, &inputs);
    if (!cut) return fail(cut.status());
    cut_ = std::move(*cut);
  }
  // Names that the cut makes are inputs, too.
  GraphInfo known = whole;
  for (const std::string &tensor : cut_.feeds) {
    GraphTensor t;
    t.name = t.tensor = tensor;
    known.variables.push_back(t);
  }
  // A wrong name or a missing value is a slip of the command line, whatever else the compiler would find.
  if (cut_.only.empty())
    if (Status s = checkGraphInputs(known, inputs, given.shapes, values, invocation_.commandLine()); !s) return fail(s);
  if (hasOpenInputs(whole)) {
    Result<std::map<std::string, std::vector<int64_t>>> shapes = shapesOfOpenInputs(whole, inputs, values.seed);
    if (!shapes) return fail(shapes.status());
    for (const auto &s : *shapes) options.shapes.insert(s);
    if (options.shapes.size() != given.shapes.size()) {
      start = trace_ ? trace_->now() : 0;
      pipeline = std::make_unique<Pipeline>(registry_, options);
      if (!pipeline->import(input.name, input.bytes)) return failedHere();
    }
  }
  shapes_ = options.shapes;
  if (!keepGraph) std::string().swap(input.bytes);
  if (!cut_.empty()) {
    pipeline->cut(cut_);
    if (!pipeline->run(Phase::kShape)) return failedHere();
    dropUnneeded(whole, pipeline->graph(), &inputs, &notes_);
  }
  if (!pipeline->run(Phase::kPlan)) return failedHere();
  invocation_.progress().clear();
  invocation_.showFindings(pipeline->diagnostics(), pipeline->source());
  phases_ = phasesJson(*pipeline);
  phasesText_ = cli::phasesText(*pipeline);
  if (trace_) trace_->phases(*pipeline, start);
  return pipeline->emit(Emit::kPlan);
}

std::string RunPlanner::referencePlan(const GraphInput &input, CompileOptions options, int *exitCode) {
  options = withProgress(std::move(options), invocation_.progress(), "compiling the reference");
  options.simplify = false;
  options.fuse = false;
  options.inPlace = false;
  options.mesh.reset();
  options.shapes = shapes_;
  Pipeline pipeline(registry_, options);
  if (pipeline.import(input.name, input.bytes)) {
    if (!cut_.empty()) pipeline.cut(cut_);
    if (pipeline.run(Phase::kPlan)) return pipeline.emit(Emit::kPlan);
  }
  *exitCode = failed(pipeline);
  return "";
}

} // namespace opc::cli
