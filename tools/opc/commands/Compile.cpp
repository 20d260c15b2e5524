// opc compile: a graph lowered to a plan, or to any phase.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "Calibration.h"
#include "CompileReport.h"
#include "Devices.h"
#include "DiagnosticList.h"
#include "GraphInput.h"
#include "GraphOutput.h"
#include "Log.h"
#include "MeshFlags.h"
#include "ModelFlags.h"
#include "NativeFlags.h"
#include "NearestNames.h"
#include "NumberText.h"
#include "OnnxOutput.h"
#include "OpFlags.h"
#include "OutputFiles.h"
#include "PhaseDump.h"
#include "PrintableText.h"
#include "Reproducer.h"
#include "RunCut.h"
#include "RunTrace.h"
#include "Session.h"
#include "ShapeFlags.h"
#include "SimulationReport.h"
#include "TextParts.h"
#include "TextTable.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

namespace opc::cli {

namespace {

/// The end of the process gives back at once what a large graph's pipeline would give back op by op.
Pipeline &untilTheEnd(std::unique_ptr<Pipeline> pipeline) {
  static std::vector<std::unique_ptr<Pipeline>> &kept = *new std::vector<std::unique_ptr<Pipeline>>;
  return *kept.emplace_back(std::move(pipeline));
}

/// To what --until names.
Result<bool> cutGraph(const std::vector<std::string> &until, Pipeline &pipeline, Progress &progress) {
  Result<GraphCut> cut = cutAt(until, pipeline.facts());
  if (!cut) progress.clear();
  if (!cut) return cut.status();
  return pipeline.cut(*cut);
}

int listPhases(Invocation &invocation) {
  if (invocation.flags().json) {
    Json list = Json::array();
    for (Phase p : allPhases()) list.push_back({{"name", phaseName(p)}, {"doc", phaseDoc(p)}});
    invocation.terminal().out(jsonText({{"schema", 1}, {"phases", std::move(list)}}));
    return kExitOk;
  }
  for (Phase p : allPhases()) invocation.terminal().out(padded(phaseName(p), 12) + phaseDoc(p) + "\n");
  return kExitOk;
}

Result<Phase> readPhase(const std::string &name) {
  if (const auto phase = parsePhase(name)) return *phase;
  std::vector<std::string> names;
  for (Phase p : allPhases()) names.push_back(phaseName(p));
  return usageError("there is no phase '" + name + "'",
                    didYouMean(name, names, "opc compile --to help lists the phases"));
}

Status checkDevice(const CompileOptions &options) {
  if (options.device == "cpu") return Status::ok();
  if (!options.sizes.empty())
    return Status(StatusCode::kUnsupported, "OPC0006",
                  "plans of sizes in a range are for the cpu, and the device is '" + options.device + "'")
        .withHelp("give a fixed shape, or --device cpu");
  if (options.mesh && options.mesh->microBatches > 1)
    return Status(StatusCode::kUnsupported, "OPC0006",
                  "plans of micro-batches are for the cpu, and the device is '" + options.device + "'")
        .withHelp("give --device cpu, or leave --micro-batches out");
  return Status::ok();
}

/// --Werror.
class FatalWarnings {
public:
  Option option() {
    return {"--Werror", 0, "[=CODE,...]", "warnings are errors: all of them, or those with these codes", &given_};
  }
  Status read() {
    if (given_.empty() || given_ == "true") return Status::ok();
    const std::vector<std::string> known(std::begin(kWarningCodes), std::end(kWarningCodes));
    for (const std::string &code : splitAt(given_, ',')) {
      if (std::find(known.begin(), known.end(), code) == known.end())
        return usageError("--Werror takes codes of warnings, and '" + code + "' is none",
                          didYouMean(code, known, "they are " + joined(known, ", ") + "; --Werror means all of them"));
      codes_.push_back(code);
    }
    return Status::ok();
  }
  /// The findings as errors, when one of them is a warning that --Werror means; else none.
  std::vector<Diagnostic> among(const std::vector<Diagnostic> &findings) const {
    std::vector<Diagnostic> fatal;
    for (Diagnostic d : findings) {
      const bool isMeant = given_ == "true" || std::find(codes_.begin(), codes_.end(), d.code) != codes_.end();
      if (d.severity != Severity::kWarning || !isMeant) continue;
      d.severity = Severity::kError;
      d.notes.push_back("a warning, and an error by --Werror");
      fatal.push_back(std::move(d));
    }
    return fatal;
  }

private:
  std::string given_;
  std::vector<std::string> codes_;
};

/// The graph's, as `opc show` counts them, before the compiler has added or joined any; of IR those of its phase.
size_t opsOf(const std::vector<PhaseFacts> &phases) {
  for (const PhaseFacts &s : phases)
    if (s.name == phaseName(Phase::kShape)) return s.ops;
  return phases.front().ops;
}

/// Where no --emit says what is written, a name that ends as that of another form would mislead.
Status checkEndingFor(const std::string &emitted, const std::string &output) {
  const std::string ending = std::filesystem::path(output).extension().string();
  for (const char *other : {"plan", "mlir", "mlirbc", "pbtxt", "pb", "onnx"})
    if (emitted != other && ending == std::string(".") + other)
      return Status(StatusCode::kUsage, "OPC0002", "-o " + output + ": without --emit opc compile writes " + emitted)
          .withHelp(std::string("give --emit ") + other + ", or a name that ends in ." + emitted);
  return Status::ok();
}

struct CompileCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s =
        specOf("lower a graph to a runnable plan, or stop at any phase", "GRAPH|-", 0, 1); // --to help needs none
    s.examples = {"opc compile mlp.pbtxt -o mlp.plan",
                  "opc compile mlp.pbtxt --to shape --emit mlir -o -",
                  "opc compile mlp.pbtxt -o mlp.plan --dump ir/ --stats",
                  "opc compile mlp.pbtxt --shape x=1..64,784 -o mlp.plan",
                  "opc compile train.pbtxt --mesh 2x4 -o train.plan",
                  "opc compile job.pb --emit pbtxt -o job.pbtxt",
                  "opc compile mlp.pbtxt --emit onnx -o mlp.onnx"};
    s.options = {
        {"--output", 'o', "FILE", "where to write; - is standard output", &output_, true},
        {"--to", 0, "PHASE", "stop after this phase; --to help lists them", &to_, true},
        {"--from", 0, "PHASE", "go on after this phase: GRAPH is what --emit mlir or mlirbc wrote after it", &from_},
        Option{"--emit", 0, "WHAT", "plan, mlir, mlirbc (its bytecode), pbtxt, pb or onnx", &emit_, true}.oneOf(
            {"plan", "mlir", "mlirbc", "pbtxt", "pb", "onnx"}),
        native_.option(),
        Option{"--mode", 0, "", "whether a Job's train_conf adds its training step (default train)", &mode_}.oneOf(
            {"infer", "train"}),
        shapeOption(&shapes_, true, true),
        untilOption(&until_),
        {"--no-fuse", 0, "", "leave every op as it is written: no fused ops, no other layouts", &noFuse_},
        {"--verify-each", 0, "", "check the IR after the import and after each pass (for work on the compiler)",
         &verifyEach_},
        {"--stats", 0, "[=json]", "time, ops and memory by phase", &stats_, true},
        {"--simulate", 0, "CLUSTER", "estimate a step of the plan on the cluster that this JSON file describes",
         &simulate_, true},
        {"--calibrate", 0, "FILE",
         "measure this machine, with the plan's ranks and ops, and write it as a cluster file", &calibrate_, true},
        {"--trace", 0, "FILE", "the phases as Chrome trace events (Perfetto)", &trace_},
        {"--simulate-trace", 0, "FILE", "the simulated step for chrome://tracing", &simulateTrace_, true},
        {"--reproducer", 0, "FILE", "write the graph and this command as one file, for a report of a failure",
         &reproducer_},
        warningsAsErrors_.option(),
        Option{"--max-errors", 0, "N", "report at most N errors (default 20)", &maxErrors_}.from(1)};
    for (auto &more :
         {onnx_.options(), modelFlags_.options(true), dump_.options(), opFlags_.options(), mesh_.options()})
      s.options.insert(s.options.end(), more.begin(), more.end());
    s.details =
        "Without --emit the result is a plan, or MLIR text when --to names an earlier phase. Without -o text goes to "
        "standard output and a plan to GRAPH's name with the ending .plan, in the working directory. pbtxt and pb "
        "write the graph in canonical form, as imported unless --to asks for more.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (to_ == "help") return listPhases(invocation);
    if (positional.empty()) return usageError("opc compile needs GRAPH|-", "opc compile -h");
    options_.device = invocation.flags().device;
    OPC_RETURN_IF_ERROR(readFlags(positional[0]));
    const bool json = invocation.flags().json || stats_ == "json";
    if (json && output_ == "-") return usageError("the output and the JSON both want standard output", "give -o FILE");
    OPC_RETURN_IF_ERROR(checkOutputPath(output_, positional[0]));
    OPC_RETURN_IF_ERROR(checkFiles(invocation, positional[0]));
    OPC_RETURN_IF_ERROR(dump_.open());

    std::optional<simulate::ClusterDescription> cluster;
    if (!simulate_.empty()) {
      OPC_ASSIGN_OR_RETURN(cluster, readClusterFile(simulate_));
      mesh_.fitAxes(&*cluster);
      if (options_.mesh && !mesh_.hasCluster()) OPC_RETURN_IF_ERROR(useCluster(*cluster, &*options_.mesh));
    }
    OPC_ASSIGN_OR_RETURN(GraphInput input, readGraphInput(positional[0]));
    if (input.isPlan) return usageError(input.name + " is a plan already", "opc run " + positional[0] + " runs it");
    OPC_ASSIGN_OR_RETURN(Registry registry, invocation.loadRegistry(positional[0]));

    invocation.watch().lap("read");
    OPC_ASSIGN_OR_RETURN(Reproducer reproducer, Reproducer::of(reproducer_, invocation, input, registry, options_));
    OPC_RETURN_IF_ERROR(reproducer.write(phaseName(last_))); // in case that this ends by a crash
    std::string begun = phaseName(from_.empty() ? Phase::kImport : after_);
    OPC_ASSIGN_OR_RETURN(CompileOptions options, modelFlags_.applied(input, options_));
    if (dump_.isAsked()) options.dump = [&](Phase phase, const std::string &text) { dump_.write(phase, text); };
    Progress &progress = invocation.progress();
    options.progress = [&](Phase phase) {
      begun = phaseName(phase);
      progress.begin(std::string("compiling: ") + phaseName(phase));
    };
    RunTrace trace;
    const double start = trace.now();
    Pipeline &pipeline = untilTheEnd(std::make_unique<Pipeline>(registry, options));
    native_.apply(&pipeline);
    bool compiled = from_.empty() ? pipeline.import(input.name, std::move(input.bytes))
                                  : pipeline.resume(input.name, input.bytes.take(), after_);
    if (compiled && !until_.empty()) {
      OPC_ASSIGN_OR_RETURN(compiled, cutGraph(until_, pipeline, progress));
    }
    compiled = compiled && pipeline.run(last_);
    progress.clear();
    if (!trace_.empty()) { // of a compilation that fails, how far it came
      trace.phases(pipeline, start);
      OPC_RETURN_IF_ERROR(trace.write(trace_));
    }
    OPC_RETURN_IF_ERROR(reproducer.write(begun));
    if (!compiled) return failureOf(pipeline);
    const bool isPlan = !isOnnx() && what_ == Emit::kPlan, isRun = cluster || !calibrate_.empty(); // needs all bytes
    const std::string result = isOnnx() || (isPlan && !isRun) ? "" : modelFlags_.emitted(pipeline, what_);
    if (pipeline.errorCount()) return failureOf(pipeline);
    if (const auto fatal = warningsAsErrors_.among(pipeline.diagnostics()); !fatal.empty())
      return Failure(fatal, fatal.size(), StatusCode::kInvalidGraph, pipeline.source());
    invocation.watch().lap("compile");
    invocation.showFindings(pipeline.diagnostics(), pipeline.source());
    OPC_RETURN_IF_ERROR(dump_.status());
    if (isOnnx()) return writeOnnx(invocation, pipeline, registry, json);
    OPC_RETURN_IF_ERROR(modelFlags_.giveWeights(invocation, pipeline, what_ != Emit::kPlan));
    if (!calibrate_.empty()) {
      OPC_ASSIGN_OR_RETURN(Calibration machine, calibrate(result, registry));
      if (!machine.isFirst) return kExitOk;
      OPC_RETURN_IF_ERROR(writeFileAtomically(calibrate_, simulate::clusterText(machine.cluster)));
      invocation.note(calibrationText(machine.cluster) + "; wrote " + printableName(calibrate_));
      if (!cluster) cluster = std::move(machine.cluster);
    }
    Json simulation;
    if (cluster) {
      OPC_ASSIGN_OR_RETURN(simulate::SimulationReport estimate,
                           simulatePlan(result, registry, *cluster, simulateTrace_));
      simulation = simulationJson(estimate);
      if (!json) invocation.terminal().out(simulationText(estimate));
    }
    OPC_RETURN_IF_ERROR(isPlan ? writePlanOutput(invocation, pipeline, output_, positional[0])
                               : writeGraphOutput(invocation, output_, result, positional[0]));
    const size_t bytes = isPlan ? pipeline.planBytes() : result.size();
    report(invocation, pipeline, input.name, bytes, json, std::move(simulation));
    return kExitOk;
  }

private:
  bool isOnnx() const { return emit_ == "onnx"; }

  Outcome<int> writeOnnx(Invocation &invocation, Pipeline &pipeline, const Registry &registry, bool json) const {
    OPC_ASSIGN_OR_RETURN(const size_t bytes, onnx_.write(invocation, pipeline, registry, output_));
    report(invocation, pipeline, pipeline.source().name, bytes, json, Json());
    return kExitOk;
  }

  /// What has been decided in IR that a compilation goes on from.
  Status checkFrom() {
    if (from_.empty()) return Status::ok();
    OPC_ASSIGN_OR_RETURN(after_, readPhase(from_));
    if (after_ == Phase::kPlan) return usageError("nothing is left to do after phase plan", "opc run takes the plan");
    if (last_ < after_ && to_.empty())
      return usageError("--emit " + emit_ + " writes the graph as it is after phase " + phaseName(last_) +
                            ", which is before --from " + from_,
                        "give a later phase: --to PHASE (--to help lists them)");
    if (last_ < after_)
      return usageError("--to " + to_ + " is before --from " + from_, "give --to a later phase, or leave it out");
    if (!reproducer_.empty())
      return usageError("--reproducer writes a graph, and --from reads IR", "keep the IR and the command themselves");
    if (!shapes_.empty() || !until_.empty() || mode_ != "train" || opFlags_.any())
      return usageError("--shape, --until, --mode, --cast-ops and --place are for a graph, and --from reads IR",
                        "give them where the IR is written");
    return Status::ok();
  }

  Status readFlags(const std::string &graph) {
    std::optional<Phase> to;
    if (!to_.empty()) {
      OPC_ASSIGN_OR_RETURN(to, readPhase(to_));
    }
    if (emit_.empty()) {
      emit_ = to && *to != Phase::kPlan ? "mlir" : "plan";
      isEmitUnsaid_ = true;
    }
    if (emit_ == "plan")
      what_ = Emit::kPlan, last_ = Phase::kPlan;
    else if (emit_ == "mlir" || emit_ == "mlirbc")
      what_ = emit_ == "mlir" ? Emit::kMlir : Emit::kMlirBytecode, last_ = to.value_or(Phase::kPlan);
    else if (isOnnx())
      last_ = to.value_or(Phase::kGrad);
    else if (emit_ == "pbtxt")
      what_ = Emit::kGraphText, last_ = to.value_or(Phase::kImport);
    else
      what_ = Emit::kGraphBinary, last_ = to.value_or(Phase::kImport);
    if (simulate_.empty() && calibrate_.empty() && !simulateTrace_.empty())
      return usageError("--simulate-trace needs --simulate CLUSTER");
    if ((!simulate_.empty() || !calibrate_.empty()) && (emit_ != "plan" || output_ == "-"))
      return usageError("--simulate and --calibrate are for a plan in a file",
                        "leave --emit and --to out, and give -o FILE or nothing");
    if (emit_ == "plan" && to && *to != Phase::kPlan)
      return usageError("a plan exists only after the last phase, and --to stops at '" + to_ + "'",
                        "leave --to out, or give --emit mlir");
    if (isOnnx() && (last_ < Phase::kShape || last_ > Phase::kSimplify))
      return usageError("--emit onnx writes a graph with shapes and of its own ops, and --to stops at '" + to_ + "'",
                        "leave --to out, or give shape, grad or simplify");
    OPC_RETURN_IF_ERROR(onnx_.check(isOnnx()));
    OPC_RETURN_IF_ERROR(checkFrom());
    OPC_RETURN_IF_ERROR(opFlags_.apply(&options_));
    options_.train = mode_ == "train";
    options_.fuse = !noFuse_;
    options_.regions = !isOnnx(); // what is written as ONNX is each op by itself
    options_.keepsBranches = isOnnx();
    options_.wanted = until_;
    options_.verifyEach |= verifyEach_;
    if (stats_ != "" && stats_ != "true" && stats_ != "json")
      return usageError("--stats takes nothing or =json, not '" + stats_ + "'");
    const bool text = what_ == Emit::kMlir || what_ == Emit::kGraphText;
    if (output_.empty()) {
      if (text)
        output_ = "-";
      else if (graph == "-")
        return usageError("a graph from standard input has no name for its " + emit_,
                          "give -o FILE, or -o - for standard output");
      else
        output_ = graphStem(graph) + "." + emit_;
    }
    if (output_ == "-" && !text && Terminal::stdoutIsTerminal())
      return usageError("a " + emit_ + " is binary and standard output is a terminal", "give -o FILE");
    OPC_RETURN_IF_ERROR(warningsAsErrors_.read());
    options_.maxErrors = static_cast<size_t>(maxErrors_);
    OPC_ASSIGN_OR_RETURN(GivenShapes given, parseShapeFlags(shapes_));
    options_.shapes = std::move(given.shapes);
    options_.sizes = std::move(given.sizes);
    if (!options_.sizes.empty() && !until_.empty())
      return usageError("sizes in a range do not go with --until", "give a fixed shape");
    if (!options_.sizes.empty() && emit_ != "plan")
      return usageError("sizes in a range are for plans, and --emit " + emit_ + " writes a graph",
                        "leave --emit and --to out, or give a fixed shape");
    OPC_ASSIGN_OR_RETURN(std::optional<MeshRequest> mesh, mesh_.request());
    options_.mesh = mesh;
    OPC_RETURN_IF_ERROR(native_.check(what_ == Emit::kPlan, options_));
    OPC_ASSIGN_OR_RETURN(options_.device, devicesOfRanks(options_.device, mesh ? mesh->devices() : 1));
    OPC_RETURN_IF_ERROR(checkDevice(options_));
    return Status::ok();
  }

  /// No output replaces what is read, or another output.
  Status checkFiles(const Invocation &invocation, const std::string &graph) const {
    for (const std::string &path : {calibrate_, simulateTrace_, reproducer_, trace_, modelFlags_.weightsOut()})
      if (!path.empty()) OPC_RETURN_IF_ERROR(checkOutputPath(path, graph));
    FileUse files;
    files.readsGraph(graph, "the graph");
    files.reads(simulate_, "--simulate");
    files.reads(mesh_.clusterFile(), "--cluster");
    files.readsSettings(invocation);
    for (const std::string &path : onnx_.weights()) files.reads(path, "--weights");
    OPC_RETURN_IF_ERROR(files.writes(output_, "-o"));
    OPC_RETURN_IF_ERROR(isEmitUnsaid_ ? checkEndingFor(emit_, output_) : Status::ok());
    for (const std::string &path : isOnnx() ? OnnxOutput::replacedData(output_) : std::vector<std::string>())
      OPC_RETURN_IF_ERROR(files.writes(path, "the data beside -o"));
    OPC_RETURN_IF_ERROR(files.writes(calibrate_, "--calibrate"));
    OPC_RETURN_IF_ERROR(files.writes(trace_, "--trace"));
    OPC_RETURN_IF_ERROR(files.writes(modelFlags_.weightsOut(), "--weights-out"));
    OPC_RETURN_IF_ERROR(files.writes(reproducer_, "--reproducer"));
    return files.writes(simulateTrace_, "--simulate-trace");
  }

  void report(Invocation &invocation, const Pipeline &pipeline, const std::string &graph, size_t bytes, bool json,
              Json simulation) const {
    const MemoryFacts memory = last_ >= Phase::kMemory ? pipeline.memory() : MemoryFacts();
    if (json) {
      Json document = {{"schema", 1},   {"graph", graph}, {"output", output_},
                       {"emit", emit_}, {"bytes", bytes}, {"ops", opsOf(pipeline.stats())}};
      if (last_ >= Phase::kMemory) document["tasks"] = pipeline.tasks();
      document["phases"] = phasesJson(pipeline.stats());
      if (last_ >= Phase::kMemory) document["memory"] = memoryJson(memory, false);
      if (!simulation.is_null()) document["simulation"] = std::move(simulation);
      if (native_.isAsked()) document["native"] = nativeJson(pipeline.native());
      invocation.terminal().out(jsonText(document));
      return;
    }
    if (stats_ == "true") {
      invocation.terminal().err(phasesText(pipeline.stats()));
      if (options_.mesh && last_ >= Phase::kBoxing)
        invocation.terminal().err(boxingText(pipeline.facts().mesh, 20, errTableWidth()));
      if (last_ >= Phase::kMemory) invocation.terminal().err(memoryText(memory));
    }
    if (native_.isAsked()) invocation.note(nativeText(pipeline.native()));
    if (output_ == "-") return; // the summary would only disturb whoever reads along
    double seconds = 0;
    for (const PhaseFacts &s : pipeline.stats()) seconds += s.seconds;
    std::string line = printableName(graph) + ": " + countText(opsOf(pipeline.stats()), "op");
    if (last_ >= Phase::kMemory) line += ", " + countText(pipeline.tasks(), "task");
    line += " in " + secondsText(seconds);
    if (last_ >= Phase::kMemory) line += ", " + bytesText(memory.arenaBytes) + " of memory";
    invocation.note(line + "; wrote " + printableName(output_) + " (" + bytesText(bytes) + ")");
  }

  std::string mode_ = "train", output_, to_, from_, emit_, stats_, reproducer_, simulate_, simulateTrace_, trace_,
              calibrate_;
  std::vector<std::string> shapes_, until_;
  FatalWarnings warningsAsErrors_;
  ModelFlags modelFlags_;
  OnnxOutput onnx_;
  MeshFlags mesh_;
  OpFlags opFlags_;
  NativeFlags native_;
  PhaseDump dump_;
  CompileOptions options_;
  bool noFuse_ = false, verifyEach_ = false, isEmitUnsaid_ = false;
  int64_t maxErrors_ = 20;
  Emit what_ = Emit::kPlan;
  Phase last_ = Phase::kPlan, after_ = Phase::kImport; // --to, --from
};

} // namespace

std::unique_ptr<Command> makeCompileCommand() { return std::make_unique<CompileCommand>(); }

} // namespace opc::cli
