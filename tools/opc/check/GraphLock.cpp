// A graph as it would be locked.
// SPDX-License-Identifier: Apache-2.0
#include "GraphLock.h"

#include "ExitCodes.h"
#include "FactNodes.h"
#include "FactsInput.h"
#include "GraphInput.h"
#include "LockFile.h"
#include "ModelSource.h"
#include "OutputRun.h"
#include "Sha256.h"

#include <algorithm>
#include <filesystem>

namespace opc::cli {

namespace {

GraphFinding findingOf(const Diagnostic &d, const std::string &graph) {
  GraphFinding f;
  f.rule = "GRAPH_INVALID";
  f.severity = d.severity;
  f.graph = graph;
  f.range = d.range;
  f.message = d.code + ": " + d.message;
  f.found = d.subject;
  f.help = d.help.empty() ? "opc explain " + d.code : d.help;
  return f;
}

class LockMaker {
public:
  LockMaker(const Registry &registry, const LockRequest &request, const std::string &name)
      : registry_(registry), request_(request), name_(name) {}

  MadeLock make(SharedBytes bytes) {
    made_.lock.graph = std::filesystem::path(name_).filename().string();
    made_.lock.target = request_.target;
    made_.lock.target.shapes.clear(); // until it is known which inputs there are
    if (compile(std::move(bytes))) {
      const std::string plan = pipeline_->emit(Emit::kPlan);
      made_.plan = sha256(plan);
      made_.lock.ir = sha256(pipeline_->emit(Emit::kMlirWithoutPlaces)).substr(0, 16);
      if (request_.runs) run(plan);
    }
    for (const LockSection s : lockSections()) {
      const bool hasMesh = s != LockSection::kSbp && s != LockSection::kBoxing;
      if ((hasMesh || request_.options.mesh) && (s != LockSection::kNumerics || request_.runs) &&
          (s != LockSection::kConstants || made_.isModel))
        made_.lock.sections.insert(s);
    }
    return std::move(made_);
  }

private:
  bool compile(SharedBytes bytes) {
    if (!begin(std::move(bytes))) return made_.findings.empty() ? invalid() : false;
    if (!pipeline_->run(Phase::kGrad)) return invalid();
    GraphFacts &facts = made_.lock.facts;
    facts = pipeline_->facts(/*costs=*/true);
    forgetInnerPlaces(&facts);
    made_.lock.detailed = {LockSection::kOps, LockSection::kGrad};
    digestValues(*pipeline_, &facts);
    if (made_.isModel)
      for (GraphOp &op : factsWithConstants(*pipeline_).ops)
        if (op.isValue) made_.lock.constants.push_back(std::move(op));
    if (!pipeline_->run(Phase::kPlan)) return invalid();
    GraphFacts whole = pipeline_->facts();
    facts.mesh = std::move(whole.mesh);
    facts.tasks = std::move(whole.tasks);
    facts.memory = std::move(whole.memory);
    facts.parts = std::move(whole.parts);
    whole.costs.flops = facts.costs.flops;
    whole.costs.bytes = facts.costs.bytes;
    facts.costs = whole.costs;
    shortenAttributes(&facts);
    namePieces(&facts);
    std::string order;
    for (const GraphTask &t : facts.tasks) order += t.kernel + " " + std::to_string(t.stream) + "\n";
    made_.lock.schedule = sha256(order).substr(0, 16);
    for (const Diagnostic &d : pipeline_->diagnostics()) {
      if (d.severity != Severity::kWarning) continue;
      made_.warnings.push_back(d);
      made_.lock.warnings.push_back({d.code, d.subject});
    }
    std::sort(made_.lock.warnings.begin(), made_.lock.warnings.end());
    return true;
  }

  /// Reads the graph, and gives its inputs their shapes.
  bool begin(SharedBytes bytes) {
    made_.isModel = looksLikeModel(bytes);
    CompileOptions options = request_.options;
    if (!made_.isModel) {
      pipeline_.emplace(registry_, std::move(options));
      if (!pipeline_->import(name_, std::move(bytes))) return false;
      if (request_.target.shapes.empty()) return true;
      takeShapes(pipeline_->facts().inputs);
      return pipeline_->setShapes(made_.lock.target.shapes);
    }
    // The ops of a model follow from the sizes of its inputs, which must be known before it is read.
    options.model = request_.model;
    std::optional<ModelSource> declared;
    if (!request_.target.shapes.empty() || !request_.model.dims.empty()) {
      ModelRequest nothingGiven;
      nothingGiven.beside = request_.model.beside;
      declared = readModel(name_, bytes, registry_, {}, nothingGiven);
    }
    if (declared)
      takeShapes(declared->inputs);
    else
      made_.lock.target.shapes = request_.target.shapes;
    options.shapes = made_.lock.target.shapes;
    pipeline_.emplace(registry_, std::move(options));
    if (!pipeline_->import(name_, std::move(bytes))) return false;
    if (!isBound()) return false;
    if (declared) keepSizes(declared->inputs);
    return true;
  }

  /// Those of inputs that the graph has: a shape may be meant for others of many graphs. What the graph itself says of
  /// them is its interface.
  void takeShapes(const std::vector<GraphTensor> &inputs) {
    made_.inputs.emplace();
    for (const GraphTensor &in : inputs) {
      made_.inputs->push_back(in.name);
      const auto shape = request_.target.shapes.find(in.name);
      if (shape == request_.target.shapes.end()) continue;
      made_.lock.target.shapes.insert(*shape);
      made_.lock.declared[in.name] = tensorTypeText(in);
    }
  }

  /// What --dim has made of inputs that are open: a check without it has the sizes as shapes.
  void keepSizes(const std::vector<GraphTensor> &declared) {
    for (const GraphTensor &in : pipeline_->facts().inputs)
      for (const GraphTensor &was : declared) {
        if (was.name != in.name || !isOpen(was)) continue;
        const DimVector &dims = in.shape.dim_vec();
        made_.lock.target.shapes[in.name] = {dims.begin(), dims.end()};
        made_.lock.declared[in.name] = tensorTypeText(was);
      }
  }

  static bool isOpen(const GraphTensor &t) {
    const DimVector &dims = t.shape.dim_vec();
    return std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; });
  }

  bool isBound() {
    GraphInput input;
    input.name = name_;
    input.isModel = true;
    const Status status = checkBound(input, pipeline_->facts());
    if (status.isOk()) return true;
    GraphFinding f;
    f.rule = "GRAPH_INVALID";
    f.severity = Severity::kError;
    f.graph = name_;
    f.message = status.id() + ": " + status.message();
    f.help = status.help();
    made_.findings.push_back(std::move(f));
    made_.exitCode = kExitInvalid;
    return false;
  }

  bool invalid() {
    for (const Diagnostic &d : pipeline_->diagnostics())
      if (d.severity == Severity::kError) made_.findings.push_back(findingOf(d, name_));
    made_.exitCode = exitCodeOf(pipeline_->errorClass());
    if (!made_.exitCode) made_.exitCode = kExitInternal;
    return false;
  }

  void run(const std::string &plan) {
    made_.lock.numerics = request_.inputs;
    const Status status = runOutputs(plan, registry_, request_.output, &made_.lock.numerics, &made_.values);
    if (status.isOk()) return;
    GraphFinding f;
    f.rule = "RUN_FAILED";
    f.graph = name_;
    f.message = status.id() + ": " + status.message() + (status.context().empty() ? "" : " (" + status.context() + ")");
    f.help = (status.help().empty() ? "" : status.help() + "; ") + "--no-run checks everything but values";
    made_.findings.push_back(std::move(f));
    made_.exitCode = exitCodeOf(status.code());
    // The file of inputs may be none, or may not fit: the command line and the graph are well.
    if (made_.exitCode == kExitUsage || made_.exitCode == kExitInvalid) made_.exitCode = kExitExecution;
  }

  const Registry &registry_;
  const LockRequest &request_;
  const std::string &name_;
  std::optional<Pipeline> pipeline_;
  MadeLock made_;
};

} // namespace

MadeLock makeLock(const Registry &registry, const LockRequest &request, const std::string &name, SharedBytes bytes) {
  return LockMaker(registry, request, name).make(std::move(bytes));
}

} // namespace opc::cli
