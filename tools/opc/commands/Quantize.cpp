// opc quantize: a graph with 8-bit weights and data, calibrated on examples and compared with what it was.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "BatchLoader.h"
#include "DataSets.h"
#include "GraphConstants.h"
#include "GraphInput.h"
#include "ModelValues.h"
#include "NumberText.h"
#include "OnnxOutput.h"
#include "PrintableText.h"
#include "QuantizableOps.h"
#include "QuantizationReport.h"
#include "QuantizeFlags.h"
#include "QuantizedGraph.h"
#include "ShapeFlags.h"
#include "TextParts.h"
#include "ValueGiver.h"

#include <algorithm>
#include <fnmatch.h>
#include <set>

namespace opc::cli {

namespace {

StoredTensor stored(HostTensor tensor) {
  const auto owner = std::make_shared<const HostTensor>(std::move(tensor));
  return {owner->desc(), std::string_view(owner->as<char>(), owner->bytes()), owner};
}

/// Every tensor is to be seen as the graph has it. Weights go from the model's file straight into the session.
CompileOptions observed(CompileOptions options) {
  options.simplify = options.fuse = options.regions = options.inPlace = options.train = options.planHasValues = false;
  return options;
}

/// What is said of sizes that are not known, without the way out that another command has.
Failure failed(const Pipeline &pipeline) {
  Failure failure = failureOf(pipeline);
  for (Diagnostic &d : failure.findings)
    if (const size_t at = d.help.find(", or opc run --input "); d.code == "OPC0207" && at != std::string::npos)
      d.help.resize(at);
  return failure;
}

struct QuantizeCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s =
        specOf("weights and data of convolutions and products in 8 bits, calibrated and compared", "GRAPH|-", 1, 1);
    s.examples = {"opc quantize model.onnx --calibrate image=@train.npy -o model.int8.onnx",
                  "opc quantize net.pbtxt --weights net.npz --calibrate x=@x.npy --method entropy -o net.int8.onnx",
                  "opc quantize model.onnx --to int4-weights --block 64 -o small.onnx"};
    s.options = flags_.options();
    s.details =
        "Quantised are convolutions and products whose weight is a variable or computed of such: weights to i8 with a scale for "
        "each filter or column, data to u8 with a scale and a zero point. The model has QuantizeLinear and "
        "DequantizeLinear around them, as other quantisers write it; opc computes it on integers. 4-bit weights are of "
        "products alone, which become MatMulNBits of ONNX Runtime's domain. With examples every "
        "tensor of the first batch is compared with that of the graph: cosine, and the ratio of signal to noise.";
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    OPC_RETURN_IF_ERROR(invocation.requireCpu("opc quantize"));
    OPC_RETURN_IF_ERROR(flags_.read(positional[0], invocation.flags().json));
    OPC_ASSIGN_OR_RETURN(GraphInput input, readGraphInput(positional[0]));
    OPC_RETURN_IF_ERROR(flags_.checkFiles(invocation, input));
    if (input.isPlan)
      return usageError(input.name + " is a plan; graphs are quantised",
                        "give the graph that the plan was compiled from");
    limitTensorReads(defaultMemoryLimit());
    OPC_ASSIGN_OR_RETURN(const Registry registry, invocation.loadRegistry(positional[0]));
    CompileOptions options;
    OPC_ASSIGN_OR_RETURN(options.shapes, parseFixedShapes(flags_.shapes, "a graph is quantised for one size"));
    OPC_ASSIGN_OR_RETURN(options, flags_.model.applied(input, std::move(options)));

    Pipeline pipeline(registry, observed(options));
    if (!pipeline.import(input.name, input.bytes) || !pipeline.run(Phase::kShape)) return failed(pipeline);
    facts_ = pipeline.facts();
    constants_ = graphConstants(pipeline, registry);
    if (pipeline.errorCount() > 0) return failed(pipeline);
    flags_.values.program = "opc quantize";
    if (!pipeline.run(Phase::kPlan)) return failureOf(pipeline);
    OPC_ASSIGN_OR_RETURN(Session session, load(invocation, registry, pipeline.emit(Emit::kPlan)));
    OPC_RETURN_IF_ERROR(giveWeights(invocation, session, pipeline.values()));
    OPC_ASSIGN_OR_RETURN(const auto graphs, OnnxOutput::innerGraphs(facts_, registry, pipeline.source()));
    OPC_RETURN_IF_ERROR(choose(registry, updatedVariables(session), graphs, input.name));
    if (flags_.mode() != QuantizeMode::kBfloat16) OPC_RETURN_IF_ERROR(checkWeights(facts_, variables_, ops_));
    std::map<std::string, TensorRange> ranges;
    if (flags_.dataSets.empty()) {
      OPC_ASSIGN_OR_RETURN(written_, write(invocation, registry, pipeline, ranges));
      return report(invocation, input.name, {}, 0);
    }
    OPC_ASSIGN_OR_RETURN(std::vector<BatchLoader::Source> sources,
                         openDataSets(flags_.dataSets, session, "--calibrate", flags_.values.cast));
    OPC_RETURN_IF_ERROR(checkInputs(session));
    OPC_ASSIGN_OR_RETURN(BatchLoader loader, batchesOf(session, std::move(sources)));
    if (flags_.mode() == QuantizeMode::kStatic) {
      OPC_ASSIGN_OR_RETURN(ranges, calibrated(invocation, session, loader));
    }
    OPC_ASSIGN_OR_RETURN(written_, write(invocation, registry, pipeline, ranges));
    return compare(invocation, registry, session, loader, input.name);
  }

private:
  Result<Session> load(Invocation &invocation, const Registry &registry, const std::string &plan) const {
    SessionOptions options;
    options.threads = invocation.threads();
    return Session::load(plan, registry, options);
  }

  /// Variables, from files and from the graph itself. Those that are as the model's file has them stay there.
  Status giveWeights(Invocation &invocation, Session &session, const ModelValues &model) {
    OPC_ASSIGN_OR_RETURN(const NamedValues none, flags_.values.open());
    OPC_ASSIGN_OR_RETURN(const std::set<std::string> own, giveModelValues(session, model, none, flags_.values));
    std::set<std::string> elsewhere = own;
    for (const PortInfo &p : session.interface().inputs) elsewhere.insert(p.name);
    OPC_RETURN_IF_ERROR(giveValues(session, none, flags_.values, invocation.commandLine(), elsewhere).status());
    for (const PortInfo &v : session.interface().variables) {
      if (own.count(v.name)) {
        const StoredTensor &value = variables_.insert_or_assign(v.name, model.at(v.name)).first->second;
        bytesBefore_ += value.bytes.size();
        continue;
      }
      OPC_ASSIGN_OR_RETURN(HostTensor value, session.variable(v.name));
      bytesBefore_ += value.bytes();
      variables_.insert_or_assign(v.name, stored(std::move(value)));
    }
    return Status::ok();
  }

  /// The tensors of variables that optimizers, assignments and the like write.
  static std::set<std::string> updatedVariables(Session &session) {
    std::set<std::string> tensors;
    for (const ObservedTask &task : session.tasks())
      for (const ObservedTensor &in : task.inputs)
        if (in.isMutable) tensors.insert(in.name);
    return tensors;
  }

  /// Inputs that no examples feed are missing: OPC0004.
  Status checkInputs(const Session &session) const {
    for (const PortInfo &p : session.interface().inputs)
      if (std::none_of(flags_.dataSets.begin(), flags_.dataSets.end(),
                       [&](const DataSet &d) { return d.input == p.name; }))
        return Status(StatusCode::kUsage, "OPC0004", "no examples for input " + p.name + ", " + p.desc.toString())
            .withHelp("give --calibrate " + p.name + "=@FILE.npy");
    return Status::ok();
  }

  /// The ops that --keep names. Errors: OPC0005 for a pattern that names none.
  Result<std::set<std::string>> keptOps(const std::string &graph) const {
    std::set<std::string> kept;
    for (const std::string &glob : flags_.keep) {
      bool isFound = false;
      for (const GraphOp &op : facts_.ops) {
        if (fnmatch(glob.c_str(), op.name.c_str(), 0) != 0 && fnmatch(glob.c_str(), op.type.c_str(), 0) != 0) continue;
        kept.insert(op.name);
        isFound = true;
      }
      if (!isFound)
        return Status(StatusCode::kUsage, "OPC0005",
                      "--keep " + glob + ": no op of " + graph + " has such a name or type")
            .withHelp("opc show GRAPH --what ops lists them");
    }
    return kept;
  }

  /// What is quantised, with the weights that have to be computed first. Errors: OPC0005; nothing left is one, too.
  Status choose(const Registry &registry, const std::set<std::string> &updated,
                const std::map<std::string, InnerGraph> &graphs, const std::string &graph) {
    OPC_ASSIGN_OR_RETURN(const std::set<std::string> kept, keptOps(graph));
    allOps_ = facts_.ops.size() + constants_.size();
    ConstantTensors constants(registry, facts_, variables_, constants_, updated);
    foldWeights(registry, kept, constants, &facts_, &variables_);
    QuantizableOps found = quantizableOps(facts_, {variables_, graphs, constants, updated, kept, flags_.mode()});
    ops_ = std::move(found.ops);
    plain_ = std::move(found.plain);
    if (!ops_.empty()) return Status::ok();
    std::string reasons;
    for (const std::string &text : plainOpTexts(plain_)) reasons += (reasons.empty() ? "" : "; ") + text;
    if (reasons.empty())
      reasons = std::string("it has no ") + (flags_.keep.empty() ? "" : "other ") + "convolution or product of f32";
    std::string weights;
    for (const std::string &file : flags_.values.weights) weights += " --weights " + file;
    const bool isNarrow = std::any_of(plain_.begin(), plain_.end(), [](const PlainOp &op) { return !op.isF32; });
    return Status(StatusCode::kUsage, "OPC0005", "nothing of " + graph + " can be quantised: " + reasons)
        .withHelp(isNarrow ? "opc compile " + graph + weights +
                                 " --cast-ops '*=f32' --emit onnx -o FILE makes a model of f32"
                           : "");
  }

  /// Files of exactly the inputs' shapes are one batch where these have no first dimension in common.
  static Result<BatchLoader> batchesOf(const Session &session, std::vector<BatchLoader::Source> sources) {
    if (BatchLoader::isWhole(session, sources)) return BatchLoader::whole(session, std::move(sources));
    Result<BatchLoader> loader = BatchLoader::create(session, std::move(sources), false, 0);
    if (loader || loader.status().id() != "OPC0704") return loader;
    return Status(loader.status())
        .withHelp("give batches of the graph's size along the first dimension of all inputs, or for each input a file "
                  "of exactly its shape, which are one batch");
  }

  int64_t steps(BatchLoader &loader) const {
    const int64_t all = loader.order().stepsPerEpoch();
    return flags_.batches > 0 ? std::min(all, flags_.batches) : all;
  }

  Result<std::map<std::string, TensorRange>> calibrated(Invocation &invocation, Session &session, BatchLoader &loader) {
    std::map<std::string, std::string> watched;
    for (const QuantizableOp &q : ops_) watched[facts_.ops[q.op].name] = q.argument;
    RangeObserver observer(watched);
    session.observe(&observer);
    for (const bool counts : {false, true}) {
      if (counts && flags_.method() == RangeMethod::kMinMax) break;
      if (counts) observer.countValues();
      for (int64_t step = 0; step < steps(loader); ++step) {
        invocation.progress().begin("calibrating");
        OPC_RETURN_IF_ERROR(loader.feed(session, step));
        if (Status s = session.run(); !s) return std::move(s).withContext("calibrating");
      }
    }
    invocation.progress().clear();
    session.observe(nullptr);
    std::map<std::string, TensorRange> ranges;
    for (const auto &[op, argument] : watched) {
      const auto seen = observer.spreads().find(op);
      if (seen == observer.spreads().end() || !seen->second.isSeen() || !seen->second.isFinite())
        return Status(StatusCode::kExecution, "OPC0620",
                      "the data of op " + op + " is " + (seen == observer.spreads().end() ? "empty" : "not finite") +
                          " on the examples: it has no range")
            .withHelp("--keep " + op + " leaves the op in f32; opc run --trap nan,inf finds where it begins");
      ranges[op] = seen->second.range(flags_.method(), flags_.percentile.value_or(99.99));
    }
    return ranges;
  }

  Outcome<size_t> write(Invocation &invocation, const Registry &registry, Pipeline &pipeline,
                        const std::map<std::string, TensorRange> &ranges) {
    QuantizedGraph made = quantizedGraph(facts_, variables_, ops_, flags_.mode(), ranges, flags_.blockSize());
    made_ = std::move(made.facts);
    request_.name = pipeline.source().name;
    request_.variables = std::move(made.values);
    request_.constants = constants_;
    request_.blockProducts = std::move(made.blocks);
    OPC_ASSIGN_OR_RETURN(request_.graphs, OnnxOutput::innerGraphs(made_, registry, pipeline.source()));
    for (const GraphTensor &v : made_.variables)
      if (const auto it = request_.variables.find(v.name); it != request_.variables.end())
        bytesAfter_ += it->second.bytes.size();
    return OnnxOutput::writeModel(invocation, made_, registry, request_, pipeline.source(), flags_.output);
  }

  /// The first batch, in both graphs.
  Outcome<int> compare(Invocation &invocation, const Registry &registry, Session &session, BatchLoader &loader,
                       const std::string &graph) {
    ExportedModel model = exportModel(made_, registry, request_); // all in one piece
    Pipeline pipeline(registry, observed({}));
    if (!pipeline.import("the quantised model", std::move(model.bytes)) || !pipeline.run(Phase::kPlan))
      return failureOf(pipeline);
    OPC_ASSIGN_OR_RETURN(Session quantised, load(invocation, registry, pipeline.emit(Emit::kPlan)));
    OPC_RETURN_IF_ERROR(giveModelValues(quantised, pipeline.values(), {}, {}).status());
    // What an op makes for an output has another name in ONNX: the output's.
    std::map<std::string, std::string> names;
    const std::vector<GraphTensor> outputs = pipeline.facts().outputs;
    for (size_t k = 0; k < std::min(outputs.size(), facts_.outputs.size()); ++k)
      names.emplace(facts_.outputs[k].tensor, outputs[k].tensor);
    TensorCopies expected(flags_.compareMemory), made(flags_.compareMemory);
    for (auto [run, copies] : {std::pair{&session, &expected}, std::pair{&quantised, &made}}) {
      OPC_RETURN_IF_ERROR(loader.feed(*run, 0));
      run->observe(copies);
      const Status ran = run->run();
      run->observe(nullptr);
      if (!ran) return ran;
    }
    std::set<std::string> quantizedOps;
    for (const QuantizableOp &q : ops_) quantizedOps.insert(facts_.ops[q.op].name);
    const BatchOrder &order = loader.order();
    if (steps(loader) == order.stepsPerEpoch()) leftOver_ = order.leftOver();
    return report(invocation, graph, accuracyOf(expected, made, names, quantizedOps), steps(loader) * order.batch());
  }

  Outcome<int> report(Invocation &invocation, const std::string &graph, const QuantizationAccuracy &accuracy,
                      int64_t examples) const {
    const std::vector<TensorAccuracy> &list = accuracy.tensors;
    for (const std::string &text : plainOpTexts(plain_)) invocation.note(text);
    if (leftOver_ > 0)
      invocation.note("the last " + counted(static_cast<size_t>(leftOver_), "example") +
                      " not used: too few for another batch of the graph");
    if (invocation.flags().json) {
      Json ops = Json::array(), tensors = Json::array();
      for (const QuantizableOp &q : ops_) ops.push_back(facts_.ops[q.op].name);
      for (const TensorAccuracy &a : list) tensors.push_back(accuracyJson(a));
      invocation.terminal().out(
          jsonText({{"schema", 1},
                    {"graph", graph},
                    {"output", flags_.output.empty() ? Json(nullptr) : Json(flags_.output)},
                    {"to", flags_.to},
                    {"block", flags_.mode() == QuantizeMode::kBlocks ? Json(flags_.blockSize()) : Json(nullptr)},
                    {"method", flags_.mode() == QuantizeMode::kStatic ? Json(flags_.methodName()) : Json(nullptr)},
                    {"examples", examples},
                    {"examples_left_over", leftOver_},
                    {"quantized", std::move(ops)},
                    {"not_quantized", plainOpsJson(plain_)},
                    {"bytes", written_},
                    {"weight_bytes", {{"before", bytesBefore_}, {"after", bytesAfter_}}},
                    {"tensors", std::move(tensors)},
                    {"left_out", accuracy.leftOut}}));
      return kExitOk;
    }
    if (!list.empty() && flags_.top > 0 && flags_.output != "-")
      invocation.terminal().out(accuracyTable(list, flags_.mode(), static_cast<size_t>(flags_.top)));
    invocation.note(counted(ops_.size(), "op") + " of " + std::to_string(allOps_) + " quantised" +
                    (flags_.output.empty() ? "" : " to " + printableName(flags_.output)) + ": weights " +
                    bytesText(bytesBefore_) + " -> " + bytesText(bytesAfter_) + ", model " + bytesText(written_));
    if (accuracy.leftOut > 0)
      invocation.note(counted(accuracy.leftOut, "tensor") +
                      " not compared for want of memory: --compare-memory takes more than " +
                      bytesText(flags_.compareMemory));
    return kExitOk;
  }

  QuantizeFlags flags_;
  int64_t leftOver_ = 0; // examples
  GraphFacts facts_, made_;
  std::map<std::string, StoredTensor> variables_, constants_;
  std::vector<QuantizableOp> ops_;
  std::vector<PlainOp> plain_;
  size_t allOps_ = 0; // of the graph as it came
  ExportRequest request_;
  uint64_t bytesBefore_ = 0, bytesAfter_ = 0; // of weights
  size_t written_ = 0;
};

} // namespace

std::unique_ptr<Command> makeQuantizeCommand() { return std::make_unique<QuantizeCommand>(); }

} // namespace opc::cli
