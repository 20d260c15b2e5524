// From what a run was given to a plan.
// SPDX-License-Identifier: Apache-2.0
#include "RunPlan.h"

#include "FactsInput.h"
#include "PlanInput.h"

#include "CompileReport.h"
#include "MappedTensor.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace opc::cli {

namespace {

/// However a compilation ends, the trace has the phases that were.
struct TracedPhases {
  RunTrace *trace; // or null
  const Pipeline &pipeline;
  const double start; // when it was made
  ~TracedPhases() {
    if (trace) trace->phases(pipeline, start);
  }
};

/// A data set is read twice, first for its shape alone. Error: OPC0706 for a pipe, which gives everything once.
Status checkLasts(const DataSet &d) {
  std::error_code error;
  if (d.file != "-" && !std::filesystem::is_fifo(d.file, error)) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0706",
                "cannot read the data set of input " + d.input + " from " + d.file +
                    ": it is a pipe, and the shape is wanted before the examples")
      .withHelp("give a file, or the shape of a batch: --shape " + d.input + "=...");
}

/// "64,28,28".
std::string shapeText(const std::vector<int64_t> &dims) {
  std::string text;
  for (const int64_t d : dims) text += (text.empty() ? "" : ",") + std::to_string(d);
  return text;
}

} // namespace

CompileOptions RunPlanner::withProgress(CompileOptions options, const std::string &what) const {
  Progress &progress = invocation_.progress();
  if (progress.shown())
    options.progress = [&progress, what](Phase phase) { progress.begin(what + ": " + phaseName(phase)); };
  return options;
}

Failure RunPlanner::failure(const Pipeline &pipeline) const {
  invocation_.progress().clear();
  return failureOf(pipeline);
}

Status RunPlanner::checkPlanFile(const GraphInput &input) const {
  OPC_RETURN_IF_ERROR(options_.model.applied(input, {}).status());
  if (!options_.compile.shapes.empty())
    return usageError("--shape has no effect on a plan: its shapes are fixed", "compile the graph again with --shape");
  if (options_.opFlags.any())
    return usageError(OpFlags::names() + " need the graph, and " + input.name + " is a plan",
                      "compile the graph again with them");
  if (options_.noFuse || options_.noSimplify)
    return usageError(std::string(options_.noFuse ? "--no-fuse" : "--no-simplify") + " needs the graph, and " +
                          input.name + " is a plan",
                      "run the graph itself");
  if (const std::string planning = options_.ranks.planning(); !planning.empty())
    return usageError(planning + " needs the graph, and " + input.name + " is a plan",
                      "compile the graph again with it");
  if (options_.cut.any())
    return usageError("--until, --feed and --only need the graph, and " + input.name + " is a plan",
                      "run the graph itself");
  return Status::ok();
}

std::vector<std::string> RunPlanner::outputsAskedFor() const {
  std::vector<std::string> names = options_.expect.names();
  for (const std::string &text : options_.outputs) names.push_back(text.substr(0, text.find('=')));
  return names;
}

std::vector<std::string> RunPlanner::wanted() const {
  if (options_.cut.keepsParts()) return {};
  if (!options_.cut.until().empty()) return options_.cut.until();
  return options_.asksForOutputs() ? outputsAskedFor() : std::vector<std::string>();
}

Status RunPlanner::cut(Pipeline &pipeline, const GraphFacts &whole, NamedValues &inputs) {
  RunOptions &o = options_;
  if (o.cut.any()) {
    OPC_ASSIGN_OR_RETURN(cut_, o.cut.resolve(whole, &inputs));
  }
  if (cut_.until.empty() && cut_.only.empty() && o.asksForOutputs())
    cut_.outputs = cutToOutputs(outputsAskedFor(), whole).outputs;
  if (!cut_.empty()) (void)pipeline.cut(cut_); // the caller sees what was found
  return Status::ok();
}

Status RunPlanner::bindValues(Pipeline &pipeline, const GraphFacts &whole, NamedValues &inputs) {
  OPC_RETURN_IF_ERROR(cut(pipeline, whole, inputs));
  if (pipeline.errorCount()) return Status::ok();
  // Names that the cut makes are inputs, too.
  GraphFacts known = pipeline.facts();
  dropUnneeded(whole, known, &inputs, &notes_);
  for (const std::string &tensor : cut_.feeds) {
    GraphTensor t;
    t.name = t.tensor = tensor;
    known.variables.push_back(t);
  }
  // A wrong name or a missing value is a slip of the command line, whatever else the compiler would find.
  if (cut_.only.empty())
    OPC_RETURN_IF_ERROR(checkGraphInputs(known, inputs, shapes_, options_.values, invocation_.commandLine()));
  if (!hasOpenInputs(known)) return Status::ok();
  OPC_ASSIGN_OR_RETURN(auto shapes, shapesOfOpenInputs(known, inputs));
  shapes_.insert(shapes.begin(), shapes.end());
  return Status::ok();
}

namespace {

/// A data set of another shape than the graph's own is not what the graph was made for.
Status checkExamples(const GraphTensor &t, const user_op::TensorDesc &data) {
  const Shape &have = data.shape();
  bool fits = t.shape.NumAxes() == 0 || have.NumAxes() == t.shape.NumAxes();
  for (int64_t d = 1; fits && d < t.shape.NumAxes(); ++d) fits = t.shape.At(d) < 0 || have.At(d) == t.shape.At(d);
  if (fits) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0704",
                "the data set of input '" + t.name + "' is " + data.toString() + ", the input is " +
                    user_op::TensorDesc(t.shape, t.dtype).toString() + ": they may differ in the first dimension alone")
      .withHelp("give the data that the graph was made for, or the graph another shape: --shape " + t.name + "=" +
                shapeText(have.dim_vec()));
}

} // namespace

Status RunPlanner::bindDataSets(const GraphInput &input, const GraphFacts &whole, const NamedValues &inputs,
                                const std::vector<DataSet> &dataSets, Batch batch) {
  const std::string flag = isForwardAlone_ ? "--validate " : "--feed-dataset ";
  std::vector<std::string> names;
  for (const GraphTensor &t : whole.inputs) names.push_back(t.name);
  std::set<std::string> fed;
  for (const DataSet &d : dataSets) {
    if (std::find(names.begin(), names.end(), d.input) == names.end())
      return noSuchName("input", d.input, names, flag + d.input + "=@" + d.file);
    fed.insert(d.input);
  }
  OPC_RETURN_IF_ERROR(checkGraphInputs(whole, inputs, shapes_, options_.values, invocation_.commandLine(), &fed));
  for (const GraphTensor &t : whole.inputs)
    for (const DataSet &d : dataSets) {
      if (d.input != t.name || shapes_.count(t.name)) continue;
      OPC_RETURN_IF_ERROR(checkLasts(d));
      const Result<user_op::TensorDesc> data = MappedTensor::describe(d.file, t.dtype);
      if (!data) return Status(data.status()).withContext("reading the data set of input " + t.name);
      OPC_RETURN_IF_ERROR(checkExamples(t, *data));
      std::vector<int64_t> dims = data->shape().dim_vec();
      if (dims.empty())
        return Status(StatusCode::kUsage, "OPC0704", "the data set " + d.file + " has no axis of examples");
      const bool isOpen = t.dtype == kInvalidDataType || t.shape.NumAxes() == 0 || t.shape.At(0) < 0;
      if (!batch.size && !batch.ofOpen && isOpen)
        return usageError("the graph leaves the batch of input '" + t.name + "' open", "give one: --batch 64");
      dims[0] = batch.size ? batch.size : isOpen ? batch.ofOpen : t.shape.At(0);
      // Backward ops carry shapes of the forward graph in their attributes (the share of a mean is 1 / n): another
      // batch would train, and wrongly.
      if (!isOpen && t.shape.At(0) != dims[0] && whole.isDifferentiated)
        return Status(StatusCode::kUsage, "OPC0713",
                      "the gradients of " + input.name + " are made for batches of " + std::to_string(t.shape.At(0)) +
                          " (input '" + t.name + "'), --batch is " + std::to_string(batch.size))
            .withHelp("make them for this batch: opc grad --shape " + t.name + "=" + shapeText(dims) +
                      " ..., or leave out --batch");
      shapes_[t.name] = dims;
    }
  return Status::ok();
}

Outcome<SharedBytes> RunPlanner::plan(GraphInput &input, NamedValues &inputs) {
  if (input.isPlan) {
    OPC_RETURN_IF_ERROR(checkPlanFile(input));
    return std::exchange(input.bytes, {});
  }
  OPC_ASSIGN_OR_RETURN(
      std::string plan,
      compile(
          input, [&](Pipeline &pipeline, const GraphFacts &whole) { return bindValues(pipeline, whole, inputs); },
          &inputs));
  return SharedBytes(std::move(plan));
}

Outcome<std::string> RunPlanner::planBatches(GraphInput &input, const NamedValues &inputs,
                                             const std::vector<DataSet> &dataSets, Batch batch) {
  if (input.isPlan) {
    if (!isForwardAlone_) OPC_RETURN_IF_ERROR(checkPlanFile(input)); // else the flags speak of the graph that trains
    if (batch.size && !isForwardAlone_) return usageError("--batch has no effect on a plan: its shapes are fixed");
    if (options_.training.learningRate && !isForwardAlone_)
      return usageError("--lr needs the graph, and " + input.name + " is a plan", "run the graph itself");
    return input.bytes.take();
  }
  return compile(
      input, [&](Pipeline &, const GraphFacts &whole) { return bindDataSets(input, whole, inputs, dataSets, batch); },
      nullptr);
}

Result<std::optional<ModelSource>> RunPlanner::bindModel(GraphInput &input, NamedValues &inputs,
                                                         CompileOptions *options) {
  std::optional<ModelSource> source;
  if (!looksLikeModel(input.bytes)) return source;
  // Both outlive this function where the import says what is wrong: `unfit` is a value that decides and cannot be
  // taken.
  const auto taken = std::make_shared<std::map<std::string, std::pair<user_op::TensorDesc, std::string>>>();
  const auto unfit = std::make_shared<Status>();
  ModelRequest request = options->model;
  request.decide = [this, &inputs, taken, unfit](const std::string &name,
                                                 const user_op::TensorDesc &desc) -> std::optional<std::string> {
    if (!inputs.has(name)) return std::nullopt;
    const Result<HostTensor> value = inputs.make({name, desc, 0, options_.values.cast});
    if (!value || value->desc() != desc) {
      if (unfit->isOk())
        *unfit = value ? Status(StatusCode::kUsage, "OPC0704",
                                "input '" + name + "' is given as " + value->desc().toString() +
                                    ", and the model's is " + desc.toString())
                       : value.status();
      return std::nullopt;
    }
    (*taken)[name] = {desc, std::string(value->as<char>(), value->bytes())};
    return (*taken)[name].second;
  };
  for (const std::string &name : inputs.flagNames()) // elements of sequences, and optionals
    if (const auto shape = inputs.shapeOf(name, kFloat); shape && *shape) request.elements[name] = (*shape)->dim_vec();
  source = readModel(input.name, input.bytes, registry_, options->shapes, request, graphsInOps(*options));
  if (source && source->isUnbound) {
    GraphFacts open;
    open.inputs = source->inputs;
    OPC_RETURN_IF_ERROR(checkGraphInputs(open, inputs, options->shapes, options_.values, invocation_.commandLine()));
    OPC_ASSIGN_OR_RETURN(auto shapes, shapesOfOpenInputs(open, inputs));
    options->shapes.insert(shapes.begin(), shapes.end());
    source = readModel(input.name, input.bytes, registry_, options->shapes, request, graphsInOps(*options));
  }
  if (!source && !unfit->isOk()) return *unfit;
  if (!source) { // the import says why
    options->model = std::move(request);
    return source;
  }
  modelValues_ = std::move(source->values);
  for (const std::string &name : source->decided) {
    const auto &[desc, bytes] = taken->at(name);
    input.bytes = withInitializer(input.bytes, name, desc, bytes);
    auto owner = std::make_shared<const std::string>(bytes);
    modelValues_[name] = StoredTensor{desc, *owner, owner}; // with fractions it is a variable
    inputs.drop(name);
    options->shapes.erase(name);
    notes_.push_back("input '" + name + "' decides shapes or branches: it is a constant of this run");
  }
  return source;
}

Outcome<std::string> RunPlanner::compile(GraphInput &input,
                                         const std::function<Status(Pipeline &, const GraphFacts &)> &bind,
                                         NamedValues *inputs) {
  // Training shows its own progress, step by step.
  CompileOptions options =
      options_.training.isRequested() ? options_.compile : withProgress(options_.compile, "compiling");
  if (isForwardAlone_) {
    options.mesh.reset();
    options.train = false;
    options.shapes.clear(); // --shape speaks of the graph that trains
  }
  options.wanted = wanted();
  OPC_ASSIGN_OR_RETURN(options, options_.model.applied(input, std::move(options)));
  options.planHasValues = false; // they go straight into the session
  std::optional<ModelSource> model;
  if (inputs) {
    OPC_ASSIGN_OR_RETURN(model, bindModel(input, *inputs, &options));
  }
  const double start = trace_ ? trace_->now() : 0;
  Pipeline pipeline(registry_, options);
  const TracedPhases traced{trace_, pipeline, start};
  const bool again = !options_.reference.empty() || options_.keepsGraph;
  SharedBytes bytes = again ? input.bytes : std::exchange(input.bytes, {});
  if (!(model ? pipeline.import(std::move(*model), std::move(bytes)) : pipeline.import(input.name, std::move(bytes))))
    return failure(pipeline);
  if (!inputs) modelValues_ = pipeline.values();
  const GraphFacts whole = pipeline.facts();
  shapes_ = options.shapes;
  if (Status s = bind(pipeline, whole); !s) {
    invocation_.progress().clear();
    return s;
  }
  if (pipeline.errorCount()) return failure(pipeline);
  if (const auto &rate = options_.training.learningRate; rate && !isForwardAlone_ && !pipeline.setLearningRate(*rate))
    return usageError(
        "no op of " + input.name + " has a learning rate that --lr could replace",
        "make the graph again: opc grad --optimizer NAME --lr X (--schedule piecewise_constant has rates of "
        "its own, in values)");
  if (shapes_ != options.shapes && !pipeline.setShapes(shapes_)) return failure(pipeline);
  if (cut_.hasParts()) {
    if (!pipeline.run(Phase::kShape)) return failure(pipeline);
    dropUnneeded(whole, pipeline.facts(), inputs, &notes_);
    dropUnneededFeeds(pipeline.facts(), inputs, &notes_);
  }
  if (!options_.report.empty() && !(facts_ = factsOf(&pipeline))) return failure(pipeline);
  if (!pipeline.run(Phase::kPlan)) return failure(pipeline);
  if (facts_) facts_->phases = pipeline.stats();
  invocation_.progress().clear();
  invocation_.showFindings(pipeline.diagnostics(), pipeline.source());
  phases_ = phasesJson(pipeline.stats());
  phasesText_ = cli::phasesText(pipeline.stats());
  return pipeline.emit(Emit::kPlan);
}

Result<GraphFacts> RunPlanner::facts(std::string_view plan) {
  if (facts_) return std::move(*facts_);
  return factsOfPlan(plan, registry_);
}

Outcome<std::string> RunPlanner::again(const GraphInput &input, CompileOptions options,
                                       const std::function<bool(Pipeline &)> &change) {
  OPC_ASSIGN_OR_RETURN(options, options_.model.applied(input, std::move(options)));
  options.shapes = shapes_;
  options.wanted = wanted();
  options.planHasValues = false;
  Pipeline pipeline(registry_, options);
  if (!pipeline.import(input.name, input.bytes)) return failure(pipeline);
  if (!cut_.empty() && !pipeline.cut(cut_)) return failure(pipeline);
  if (change && !change(pipeline)) return failure(pipeline);
  if (!pipeline.run(Phase::kPlan)) return failure(pipeline);
  invocation_.progress().clear();
  return pipeline.emit(Emit::kPlan);
}

Outcome<std::string> RunPlanner::referencePlan(const GraphInput &input, DataType floatsAs) {
  CompileOptions options = withProgress(options_.compile, "compiling the reference");
  options.device = "cpu";
  options.simplify = false;
  options.fuse = false;
  options.inPlace = false;
  options.floatsAs = floatsAs;
  options.mesh.reset();
  return again(input, std::move(options));
}

Outcome<std::string> RunPlanner::everyTensorPlan(const GraphInput &input, const MeshRequest &mesh) {
  CompileOptions options = withProgress(options_.compile, "compiling for the mesh");
  options.mesh = mesh;
  return again(input, std::move(options), [this](Pipeline &pipeline) {
    GraphCut all;
    all.feeds = cut_.feeds;
    for (const GraphOp &op : pipeline.facts().ops)
      for (const GraphTensor &t : op.outputs) all.until.emplace_back(t.tensor, t.tensor);
    return pipeline.cut(std::move(all));
  });
}

} // namespace opc::cli
