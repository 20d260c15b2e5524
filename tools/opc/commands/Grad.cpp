// opc grad: the backward graph of a loss, its check against differences, and why a gradient is missing.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "FileUse.h"
#include "GradientCheck.h"
#include "GraphInput.h"
#include "GraphOutput.h"
#include "JsonOutput.h"
#include "ModelFlags.h"
#include "NumberText.h"
#include "OptionRanges.h"
#include "OutputFiles.h"
#include "Pipeline.h"
#include "PrintableText.h"
#include "Session.h"
#include "ShapeFlags.h"
#include "TrainingFlags.h"

#include <algorithm>

namespace opc::cli {

namespace {

std::optional<int64_t> readCount(const std::string &text) {
  const auto n = parseInteger<uint32_t>(text);
  return n && *n ? std::optional<int64_t>(*n) : std::nullopt;
}

struct GradCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("add the ops that compute gradients; explain or check them", "GRAPH|-", 1, 1);
    s.examples = {"opc grad mlp.pbtxt --loss loss -o mlp.grad.pbtxt",
                  "opc grad mlp.pbtxt --loss loss --wrt 'fc*.w' --wrt x -o -", "opc grad mlp.pbtxt --loss loss --check",
                  "opc grad mlp.pbtxt --loss loss --explain fc1.w"};
    s.options = {
        {"--loss", 0, "T", "what to differentiate: a tensor, an output or an op (repeatable: their sum)", &losses_,
         true},
        {"--wrt", 0, "GLOB", "variables, inputs or a tensor; all trainable variables if not given (repeatable)", &wrt_,
         true},
        {"--output", 'o', "FILE", "where to write the graph; - is standard output (the default)", &output_, true},
        Option{"--emit", 0, "WHAT", "joint (forward and backward, the default) or backward", &emit_, true}.oneOf(
            {"joint", "backward"}),
        within({"--order", 0, "N", "2 adds second derivatives, NAME.grad.grad, and so on", &order_, true},
               ranges::kOrder),
        {"--explain", 0, "NAME", "show the gradient's path to NAME, or where it stops", &explain_, true},
        Option{"--simplify", 0, "", "merge equal ops and fold constants in the result (default off)", &simplify_, true}
            .oneOf({"on", "off"}),
        {"--dy", 0, "", "take each loss's own gradient from an input LOSS.dy instead of ones", &dy_},
        {"--check", 0, "", "compare every gradient with central differences in f64; exit 1 on a mismatch", &check_,
         true},
        Option{"--eps", 0, "X", "--check: the step is X * max(1, |x|) (default 1e-5)", &checkOptions_.eps}.above(0),
        Option{"--samples", 0, "N|all", "--check: elements checked in each tensor (default 24)",
               into(&checkOptions_.samples, wordOr<int64_t>("all", 0, readCount))}
            .taking("a number from 1, or all"),
        Option{"--rtol", 0, "X", "--check: the relative difference allowed (default 1e-5)", &checkOptions_.rtol}.above(
            0),
        {"--input", 0, "NAME=SPEC", "--check: a value, as with opc run (repeatable)", &values_.inputs},
        {"--inputs", 0, "FILE|DIR", "--check: values for all inputs, as with opc run", &values_.archive},
        {"--weights", 0, "FILE", "--check: values for variables (repeatable)", &values_.weights},
        {"--partial-weights", 0, "", "--check: variables that no file of --weights has begin as the graph has them",
         &values_.partialWeights},
        Option{"--fill", 0, "KIND",
               "--check: what is missing: rand, zeros, ones or iota (default: random floats, integer zeros)",
               &values_.fill}
            .oneOf(fillKinds()),
        {"--seed", 0, "N", "--check: for random values", &values_.seed},
        {"--shape", 0, "NAME=DIMS", "the shape of an input, in place of the graph's (repeatable)", &shapes_},
        Option{"--max-errors", 0, "N", "report at most N errors (default 20)", &maxErrors_}.from(1)};
    for (Option &o : modelFlags_.options(true)) s.options.push_back(std::move(o));
    for (Option &o : training_.options()) s.options.push_back(std::move(o));
    s.details =
        "The result is an ordinary graph in canonical text: the forward ops and outputs as they were, the backward ops "
        "named after their forward op (fc1_grad_w), and an output NAME.grad for each gradient, NAME being the "
        "variable's or input's op. A loss of several elements is summed. With --order 2 each gradient's own sum is "
        "differentiated with respect to the same tensor. With --emit backward, tensors of the forward graph that "
        "the backward ops read become inputs, named with . for / (fc1.out_0). With --optimizer the graph is a training "
        "step: opc run GRAPH --feed-dataset ... runs it; its variables hold the optimizer's state (fc1.w-m) and the "
        "number of steps (train_step).";
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (check_) OPC_RETURN_IF_ERROR(invocation.requireCpu("opc grad --check"));
    OPC_RETURN_IF_ERROR(readFlags(positional[0]));
    OPC_RETURN_IF_ERROR(checkFiles(invocation, positional[0]));
    OPC_ASSIGN_OR_RETURN(GraphInput input, readGraphInput(positional[0]));
    if (input.isPlan)
      return usageError(input.name + " is a plan; gradients are made from graphs",
                        "give the graph that the plan was compiled from");
    limitTensorReads(defaultMemoryLimit());
    OPC_ASSIGN_OR_RETURN(Registry registry, invocation.loadRegistry(positional[0]));

    OPC_ASSIGN_OR_RETURN(options_, modelFlags_.applied(input, std::move(options_)));
    OPC_ASSIGN_OR_RETURN(options_.gradient->training, training_.config(registry));
    OPC_RETURN_IF_ERROR(chooseRecompute(registry, input));
    const bool writes = !check_ || output_ != "-";
    if (!writes) options_.wanted = namesToCheck(*options_.gradient); // the rest of the graph is not looked at
    Pipeline pipeline(registry, options_);
    if (!pipeline.import(input.name, input.bytes)) return failureOf(pipeline);
    if (writes) OPC_RETURN_IF_ERROR(training_.checkVariables(pipeline));
    if (!explain_.empty()) return explain(invocation, pipeline);
    if (!writes) return check(invocation, registry, input);
    if (!pipeline.run(Phase::kGrad)) return failureOf(pipeline);
    if (simplify_ == "on" && !pipeline.tidy()) return failureOf(pipeline);
    const std::string text = modelFlags_.emitted(pipeline, Emit::kGraphText);
    if (pipeline.errorCount()) return failureOf(pipeline);
    invocation.showFindings(pipeline.diagnostics(), pipeline.source());
    OPC_RETURN_IF_ERROR(modelFlags_.giveWeights(invocation, pipeline, true));
    if (output_ == "-") {
      if (!invocation.flags().json) invocation.terminal().file(text);
    } else {
      OPC_RETURN_IF_ERROR(writeGraphOutput(output_, text, positional[0]));
    }
    if (check_ && invocation.flags().json) return check(invocation, registry, input);
    report(invocation, pipeline, input.name, text.size());
    return check_ ? check(invocation, registry, input) : Outcome<int>(kExitOk);
  }

private:
  Status checkFiles(const Invocation &invocation, const std::string &graph) const {
    OPC_RETURN_IF_ERROR(checkOutputPath(output_, graph));
    if (!modelFlags_.weightsOut().empty()) OPC_RETURN_IF_ERROR(checkOutputPath(modelFlags_.weightsOut(), graph));
    FileUse files;
    files.readsGraph(graph, "the graph");
    files.readsSettings(invocation);
    OPC_RETURN_IF_ERROR(files.writes(output_, "-o"));
    OPC_RETURN_IF_ERROR(checkEnding("-o", output_, {".pbtxt", ".txt"}));
    return files.writes(modelFlags_.weightsOut(), "--weights-out");
  }
  Status readFlags(const std::string &graph) {
    if (losses_.empty())
      return usageError("opc grad needs --loss", "opc grad " + graph + " --loss TENSOR; opc show " + graph +
                                                     " --what tensors lists the tensors");
    GradientRequest request;
    request.losses = losses_;
    request.wrt = wrt_;
    request.order = order_;
    request.dyInputs = dy_;
    request.backwardOnly = emit_ == "backward";
    if (output_.empty()) output_ = "-";
    options_.maxErrors = static_cast<size_t>(maxErrors_);
    OPC_ASSIGN_OR_RETURN(options_.shapes, parseFixedShapes(shapes_, "gradients are made for one size"));
    options_.gradient = request;
    return Status::ok();
  }

  /// --recompute as given, or for --memory the fewest segments whose planned step fits.
  Status chooseRecompute(const Registry &registry, const GraphInput &input) {
    OPC_ASSIGN_OR_RETURN(RecomputeConfig given, training_.recompute());
    options_.gradient->recompute = given;
    const uint64_t limit = training_.memory();
    if (limit == 0) return Status::ok();
    uint64_t least = UINT64_MAX;
    for (int64_t segments = 1; segments <= 256; segments = segments < 8 ? segments + 1 : segments * 5 / 4) {
      CompileOptions options = options_;
      options.gradient->recompute.segments = segments < 2 ? 0 : segments;
      Pipeline trial(registry, options);
      // An error is reported by the compilation that follows.
      if (!trial.import(input.name, input.bytes) || !trial.run(Phase::kMemory)) return Status::ok();
      const uint64_t bytes = trial.memory().arenaBytes;
      least = std::min(least, bytes);
      if (bytes > limit) continue;
      options_.gradient->recompute = options.gradient->recompute;
      chosenSegments_ = segments;
      chosenBytes_ = bytes;
      return Status::ok();
    }
    return Status(StatusCode::kUnsupported, "OPC0509",
                  "no recomputation brings a step into " + bytesText(limit) + "; the least is " + bytesText(least))
        .withHelp("a smaller batch (--shape), --accumulate, or a larger --memory");
  }

  Outcome<int> check(Invocation &invocation, const Registry &registry, const GraphInput &input) {
    checkOptions_.request = *options_.gradient;
    checkOptions_.request.training.reset(); // gradients are checked, and not what an optimizer makes of them
    checkOptions_.request.backwardOnly = false;
    checkOptions_.shapes = options_.shapes;
    checkOptions_.model = options_.model;
    checkOptions_.threads = invocation.threads();
    const CheckInputs given{input.name, input.bytes, values_, invocation.commandLine()};
    OPC_ASSIGN_OR_RETURN(const GradientCheck result, checkGradients(registry, given, checkOptions_));
    if (invocation.flags().json)
      invocation.terminal().out(jsonText(gradientCheckJson(result, input.name)));
    else
      invocation.terminal().out(gradientCheckText(result));
    return result.passed() ? kExitOk : kExitNo;
  }

  Outcome<int> explain(Invocation &invocation, Pipeline &pipeline) {
    if (!pipeline.run(Phase::kShape)) return failureOf(pipeline);
    bool all = true;
    Json paths = Json::array();
    for (const std::string &loss : losses_) {
      bool reaches = false;
      const auto lines = pipeline.explainGradient(loss, explain_, &reaches);
      if (pipeline.errorCount()) return failureOf(pipeline);
      all &= reaches;
      if (invocation.flags().json) {
        paths.push_back({{"loss", loss}, {"tensor", explain_}, {"reaches", reaches}, {"path", lines}});
        continue;
      }
      std::string text = reaches ? "the gradient of " + loss + " reaches " + explain_ + ":\n"
                                 : "no gradient of " + loss + " reaches " + explain_ + ":\n";
      for (const std::string &line : lines) text += "  " + line + "\n";
      invocation.terminal().out(text);
    }
    if (invocation.flags().json) invocation.terminal().out(jsonText({{"schema", 1}, {"paths", std::move(paths)}}));
    return all ? kExitOk : kExitNo;
  }

  void report(Invocation &invocation, const Pipeline &pipeline, const std::string &graph, size_t bytes) const {
    const auto gradients = pipeline.facts().gradients;
    size_t made = 0;
    Json list = Json::array();
    for (const GraphGradient &g : gradients) {
      made += !g.gradient.empty();
      list.push_back({{"name", g.name},
                      {"tensor", g.tensor},
                      {"gradient", g.gradient.empty() ? Json(nullptr) : Json(g.gradient)},
                      {"output", g.output.empty() ? Json(nullptr) : Json(g.output)},
                      {"dtype", dtypeJson(g.dtype)},
                      {"shape", shapeJson(g.shape)}});
    }
    if (invocation.flags().json) {
      invocation.terminal().out(jsonText({{"schema", 1}, {"graph", graph}, {"output", output_}, {"gradients", list}}));
      return;
    }
    if (chosenSegments_ > 0)
      invocation.note(chosenSegments_ == 1 ? "a step takes " + bytesText(chosenBytes_) + "; nothing is recomputed"
                                           : "recomputing in " + std::to_string(chosenSegments_) +
                                                 " segments: a step takes " + bytesText(chosenBytes_));
    if (output_ == "-") return;
    const auto &stats = pipeline.stats();
    size_t before = 0;
    for (const PhaseFacts &s : stats)
      if (s.name == phaseName(Phase::kShape)) before = s.ops;
    invocation.note(printableName(graph) + ": " + countText(made, "gradient") + ", " + countText(stats.back().ops) +
                    " ops (" + countText(before) + " before); wrote " + printableName(output_) + " (" +
                    bytesText(bytes) + ")");
  }

  std::vector<std::string> losses_, wrt_, shapes_;
  TrainingFlags training_;
  int64_t chosenSegments_ = 0;
  uint64_t chosenBytes_ = 0;
  ValueFlags values_;
  bool dy_ = false, check_ = false;
  GradientCheckOptions checkOptions_;
  std::string output_, emit_, explain_, simplify_ = "off";
  ModelFlags modelFlags_;
  int order_ = 1;
  int64_t maxErrors_ = 20;
  CompileOptions options_;
};

} // namespace

std::unique_ptr<Command> makeGradCommand() { return std::make_unique<GradCommand>(); }

} // namespace opc::cli
