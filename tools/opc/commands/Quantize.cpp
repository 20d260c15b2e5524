// opc quantize: a graph with 8-bit weights and data, calibrated on examples and compared with what it was.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "BatchLoader.h"
#include "DataSets.h"
#include "GraphConstants.h"
#include "GraphInput.h"
#include "ModelFlags.h"
#include "NumberText.h"
#include "OnnxOutput.h"
#include "OutputFiles.h"
#include "QuantizationReport.h"
#include "QuantizedGraph.h"
#include "ShapeFlags.h"
#include "TextParts.h"
#include "ValueGiver.h"

#include <algorithm>
#include <fnmatch.h>
#include <optional>
#include <set>

namespace opc::cli {

namespace {

constexpr uint64_t kKeptBytes = uint64_t{1} << 30; // of tensors that are compared

StoredTensor stored(HostTensor tensor) {
  const auto owner = std::make_shared<const HostTensor>(std::move(tensor));
  return {owner->desc(), std::string_view(owner->as<char>(), owner->bytes()), owner};
}

/// Every tensor is to be seen as the graph has it.
CompileOptions observed(CompileOptions options) {
  options.simplify = options.fuse = options.regions = options.inPlace = options.train = false;
  return options;
}

class QuantizeCommand final : public Command {
public:
  CommandSpec spec() override {
    CommandSpec s;
    s.arguments = "GRAPH|-";
    s.summary = "weights and data of convolutions and products in 8 bits, calibrated and compared";
    s.examples = {"opc quantize model.onnx --calibrate image=@train.npy -o model.int8.onnx",
                  "opc quantize net.pbtxt --weights net.npz --calibrate x=@x.npy --method entropy -o net.int8.onnx",
                  "opc quantize model.onnx --to int8-weights -o small.onnx"};
    s.options = {{"--output", 'o', "FILE", "the ONNX model to write; without it the report alone", &output_, true},
                 {"--calibrate", 0, "INPUT=@FILE,...",
                  "examples for inputs, along the first axis of npy files, in batches of the graph's size (repeatable)",
                  &calibrate_, true},
                 Option{"--to", 0, "KIND",
                        "int8 (default: weights and data), int8-weights or bf16-weights (which need no examples)", &to_,
                        true}
                     .oneOf({"int8", "int8-weights", "bf16-weights"}),
                 Option{"--method", 0, "HOW",
                        "ranges of data: min-max (default), percentile, or entropy (what loses least information)",
                        &method_, true}
                     .oneOf({"min-max", "percentile", "entropy"}),
                 Option{"--percentile", 0, "P",
                        "--method percentile: the share of values within the range (default 99.99)", &percentile_}
                     .range(50, 100, "share in percent"),
                 {"--keep", 0, "GLOB", "ops that stay as they are, by name or type (repeatable)", &keep_, true},
                 Option{"--batches", 0, "N", "at most so many batches of the examples", &batches_}.from(1),
                 {"--weights", 0, "FILE", "values for variables (repeatable)", &values_.weights, true},
                 {"--partial-weights", 0, "", "variables that no file of --weights has begin as the graph has them",
                  &values_.partialWeights},
                 Option{"--top", 0, "N", "the tensors to show, worst first (default 10)", &top_}.from(0),
                 shapeOption(&shapes_, false, false)};
    for (Option &o : modelFlags_.options()) s.options.push_back(std::move(o));
    s.details =
        "Quantised are convolutions and products whose weight is a variable with values: weights to i8 with a scale for "
        "each filter or column, data to u8 with a scale and a zero point. The model has QuantizeLinear and "
        "DequantizeLinear around them, as other quantisers write it; opc computes it on integers. With examples every "
        "tensor of the first batch is compared with that of the graph: cosine, and the ratio of signal to noise.";
    s.minArguments = s.maxArguments = 1;
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    OPC_RETURN_IF_ERROR(invocation.requireCpu("opc quantize"));
    OPC_RETURN_IF_ERROR(readFlags(positional[0], invocation.flags().json));
    OPC_ASSIGN_OR_RETURN(GraphInput input, readGraphInput(positional[0]));
    if (input.isPlan)
      return usageError(input.name + " is a plan; graphs are quantised",
                        "give the graph that the plan was compiled from");
    limitTensorReads(defaultMemoryLimit());
    OPC_ASSIGN_OR_RETURN(const Registry registry, invocation.loadRegistry(positional[0]));
    CompileOptions options;
    OPC_ASSIGN_OR_RETURN(options.shapes, parseFixedShapes(shapes_, "a graph is quantised for one size"));
    OPC_ASSIGN_OR_RETURN(options, modelFlags_.applied(input, std::move(options)));

    Pipeline pipeline(registry, observed(options));
    if (!pipeline.import(input.name, input.bytes) || !pipeline.run(Phase::kShape)) return failureOf(pipeline);
    facts_ = pipeline.facts();
    constants_ = graphConstants(pipeline, registry);
    values_.program = "opc quantize";
    if (!pipeline.run(Phase::kPlan)) return failureOf(pipeline);
    OPC_ASSIGN_OR_RETURN(Session session, load(invocation, registry, pipeline.emit(Emit::kPlan)));
    OPC_RETURN_IF_ERROR(giveWeights(invocation, session));
    ops_ = quantizableOps(facts_, variables_);
    OPC_RETURN_IF_ERROR(keepSome(input.name));
    std::map<std::string, TensorRange> ranges;
    if (dataSets_.empty()) {
      OPC_ASSIGN_OR_RETURN(written_, write(invocation, registry, pipeline, ranges));
      return report(invocation, input.name, {}, 0);
    }
    OPC_ASSIGN_OR_RETURN(std::vector<BatchLoader::Source> sources,
                         openDataSets(dataSets_, session, "--calibrate", values_.cast));
    OPC_RETURN_IF_ERROR(checkInputs(session));
    OPC_ASSIGN_OR_RETURN(BatchLoader loader, BatchLoader::create(session, std::move(sources), false, 0));
    if (mode() == QuantizeMode::kStatic) {
      OPC_ASSIGN_OR_RETURN(ranges, calibrated(invocation, session, loader));
    }
    OPC_ASSIGN_OR_RETURN(written_, write(invocation, registry, pipeline, ranges));
    return compare(invocation, registry, session, loader, input.name);
  }

private:
  QuantizeMode mode() const {
    if (to_ == "int8-weights") return QuantizeMode::kWeights;
    return to_ == "bf16-weights" ? QuantizeMode::kBfloat16 : QuantizeMode::kStatic;
  }
  RangeMethod method() const {
    if (method_ == "percentile") return RangeMethod::kPercentile;
    return method_ == "entropy" ? RangeMethod::kEntropy : RangeMethod::kMinMax;
  }

  Status readFlags(const std::string &graph, bool json) {
    if (output_ == "-" && json)
      return usageError("the model and the JSON both want standard output",
                        "give -o FILE, or no -o for the report alone");
    if (!output_.empty()) OPC_RETURN_IF_ERROR(checkOutputPath(output_, graph));
    OPC_ASSIGN_OR_RETURN(dataSets_, parseDataSets("--calibrate", calibrate_));
    if (dataSets_.empty() && mode() == QuantizeMode::kStatic)
      return usageError("--to int8 needs examples: the ranges of data are measured",
                        "give --calibrate INPUT=@FILE, or --to int8-weights");
    if (percentile_ && method() != RangeMethod::kPercentile)
      return usageError("--percentile is for --method percentile", "opc quantize -h");
    return Status::ok();
  }

  Result<Session> load(Invocation &invocation, const Registry &registry, const std::string &plan) const {
    SessionOptions options;
    options.threads = invocation.threads();
    return Session::load(plan, registry, options);
  }

  /// Variables, from files and from the graph itself.
  Status giveWeights(Invocation &invocation, Session &session) {
    std::set<std::string> elsewhere;
    for (const PortInfo &p : session.interface().inputs) elsewhere.insert(p.name);
    OPC_ASSIGN_OR_RETURN(const NamedValues none, values_.open());
    OPC_RETURN_IF_ERROR(giveValues(session, none, values_, invocation.commandLine(), elsewhere).status());
    for (const VariableInfo &v : session.interface().variables) {
      OPC_ASSIGN_OR_RETURN(HostTensor value, session.variable(v.name));
      variables_.insert_or_assign(v.name, stored(std::move(value)));
    }
    return Status::ok();
  }

  /// Inputs that no examples feed are missing: OPC0004.
  Status checkInputs(const Session &session) const {
    for (const PortInfo &p : session.interface().inputs)
      if (std::none_of(dataSets_.begin(), dataSets_.end(), [&](const DataSet &d) { return d.input == p.name; }))
        return Status(StatusCode::kUsage, "OPC0004", "no examples for input " + p.name + ", " + p.desc.toString())
            .withHelp("give --calibrate " + p.name + "=@FILE.npy");
    return Status::ok();
  }

  /// Without the ops that --keep names. Errors: OPC0005 for a pattern that names none; nothing left is one, too.
  Status keepSome(const std::string &graph) {
    for (const std::string &glob : keep_) {
      const auto matches = [&](const GraphOp &op) {
        return fnmatch(glob.c_str(), op.name.c_str(), 0) == 0 || fnmatch(glob.c_str(), op.type.c_str(), 0) == 0;
      };
      if (std::none_of(facts_.ops.begin(), facts_.ops.end(), matches))
        return Status(StatusCode::kUsage, "OPC0005",
                      "--keep " + glob + ": no op of " + graph + " has such a name or type")
            .withHelp("opc show GRAPH --what ops lists them");
      ops_.erase(
          std::remove_if(ops_.begin(), ops_.end(), [&](const QuantizableOp &q) { return matches(facts_.ops[q.op]); }),
          ops_.end());
    }
    if (!ops_.empty()) return Status::ok();
    return Status(StatusCode::kUsage, "OPC0005",
                  graph + " has no " + (keep_.empty() ? "" : "other ") +
                      "convolution or product of f32 whose weight is a variable: nothing can be quantised");
  }

  int64_t steps(BatchLoader &loader) const {
    const int64_t all = loader.order().stepsPerEpoch();
    return batches_ > 0 ? std::min(all, batches_) : all;
  }

  Result<std::map<std::string, TensorRange>> calibrated(Invocation &invocation, Session &session, BatchLoader &loader) {
    std::map<std::string, std::string> watched;
    for (const QuantizableOp &q : ops_) watched[facts_.ops[q.op].name] = q.argument;
    RangeObserver observer(watched);
    session.observe(&observer);
    for (const bool counts : {false, true}) {
      if (counts && method() == RangeMethod::kMinMax) break;
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
      ranges[op] = seen->second.range(method(), percentile_.value_or(99.99));
    }
    return ranges;
  }

  Outcome<size_t> write(Invocation &invocation, const Registry &registry, Pipeline &pipeline,
                        const std::map<std::string, TensorRange> &ranges) {
    QuantizedGraph made = quantizedGraph(facts_, variables_, ops_, mode(), ranges);
    made_ = std::move(made.facts);
    request_.name = pipeline.source().name;
    request_.variables = std::move(made.values);
    request_.constants = constants_;
    for (const auto &[name, value] : variables_) bytesBefore_ += value.bytes.size();
    for (const auto &[name, value] : request_.variables) bytesAfter_ += value.bytes.size();
    return OnnxOutput::writeModel(invocation, made_, registry, request_, pipeline.source(), output_);
  }

  /// The first batch, in both graphs.
  Outcome<int> compare(Invocation &invocation, const Registry &registry, Session &session, BatchLoader &loader,
                       const std::string &graph) {
    const ExportedModel model = exportModel(made_, registry, request_); // all in one piece
    Pipeline pipeline(registry, observed({}));
    if (!pipeline.import("the quantised model", model.bytes) || !pipeline.run(Phase::kPlan)) return failureOf(pipeline);
    OPC_ASSIGN_OR_RETURN(Session quantised, load(invocation, registry, pipeline.emit(Emit::kPlan)));
    TensorCopies expected(kKeptBytes), made(kKeptBytes);
    for (auto [run, copies] : {std::pair{&session, &expected}, std::pair{&quantised, &made}}) {
      OPC_RETURN_IF_ERROR(loader.feed(*run, 0));
      run->observe(copies);
      const Status ran = run->run();
      run->observe(nullptr);
      if (!ran) return ran;
    }
    std::set<std::string> names;
    for (const QuantizableOp &q : ops_) names.insert(facts_.ops[q.op].name);
    return report(invocation, graph, accuracies(expected, made, names), steps(loader) * loader.order().batch());
  }

  Outcome<int> report(Invocation &invocation, const std::string &graph, const std::vector<TensorAccuracy> &list,
                      int64_t examples) const {
    if (invocation.flags().json) {
      Json ops = Json::array(), tensors = Json::array();
      for (const QuantizableOp &q : ops_) ops.push_back(facts_.ops[q.op].name);
      for (const TensorAccuracy &a : list) tensors.push_back(accuracyJson(a));
      invocation.terminal().out(jsonText({{"schema", 1},
                                          {"graph", graph},
                                          {"output", output_.empty() ? Json(nullptr) : Json(output_)},
                                          {"to", to_},
                                          {"method", mode() == QuantizeMode::kStatic ? Json(method_) : Json(nullptr)},
                                          {"examples", examples},
                                          {"quantized", std::move(ops)},
                                          {"bytes", written_},
                                          {"weight_bytes", {{"before", bytesBefore_}, {"after", bytesAfter_}}},
                                          {"tensors", std::move(tensors)}}));
      return kExitOk;
    }
    if (!list.empty() && top_ > 0 && output_ != "-")
      invocation.terminal().out(accuracyTable(list, static_cast<size_t>(top_)));
    invocation.note(counted(ops_.size(), "op") + " of " + std::to_string(facts_.ops.size()) + " quantised" +
                    (output_.empty() ? "" : " to " + output_) + ": weights " + bytesText(bytesBefore_) + " -> " +
                    bytesText(bytesAfter_) + ", model " + bytesText(written_));
    return kExitOk;
  }

  std::string output_, to_ = "int8", method_ = "min-max";
  std::vector<std::string> calibrate_, keep_, shapes_;
  std::optional<double> percentile_;
  int64_t batches_ = 0, top_ = 10;
  ValueFlags values_;
  ModelFlags modelFlags_;
  std::vector<DataSet> dataSets_;
  GraphFacts facts_, made_;
  std::map<std::string, StoredTensor> variables_, constants_;
  std::vector<QuantizableOp> ops_;
  ExportRequest request_;
  uint64_t bytesBefore_ = 0, bytesAfter_ = 0; // of weights
  size_t written_ = 0;
};

} // namespace

std::unique_ptr<Command> makeQuantizeCommand() { return std::make_unique<QuantizeCommand>(); }

} // namespace opc::cli
