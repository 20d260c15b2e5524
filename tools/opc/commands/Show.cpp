// opc show: what is in a graph.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "CompileReport.h"
#include "CostReport.h"
#include "CsvOutput.h"
#include "FactsInput.h"
#include "FileBytes.h"
#include "FileUse.h"
#include "FusionReport.h"
#include "GraphDrawing.h"
#include "GraphReport.h"
#include "GraphSelection.h"
#include "GraphValues.h"
#include "MeshFlags.h"
#include "ModelExplorer.h"
#include "ModelFlags.h"
#include "NumberText.h"
#include "OnnxModel.h"
#include "OpFlags.h"
#include "OutputFiles.h"
#include "PlanInput.h"
#include "PrintableText.h"
#include "RunCut.h"
#include "ShapeFlags.h"
#include "TextParts.h"
#include "TextTable.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace opc::cli {

namespace {

/// What a plan says of the sizes that it leaves open, and of its machine code; nothing of a graph.
struct OpenSizes {
  std::vector<SizeInfo> sizes;
  std::map<std::string, std::string> ofTensors; // "n,784" by the tensor's name
  std::vector<PlanDescription::Native> native = {};

  /// The tensor's shape in terms of the sizes; empty when it does not depend on them.
  std::string of(const GraphTensor &t) const {
    const auto found = ofTensors.find(t.tensor);
    return found == ofTensors.end() ? "" : found->second;
  }
  Json json() const {
    Json list = Json::array();
    for (const SizeInfo &s : sizes) list.push_back({{"name", s.name}, {"min", s.min}, {"max", s.max}});
    return list;
  }
  Json nativeJson() const {
    Json list = Json::array();
    for (const PlanDescription::Native &n : native)
      list.push_back({{"level", n.level}, {"images", n.loops}, {"bytes", n.bytes}});
    return list;
  }
};

std::string tensorType(const GraphTensor &t, const OpenSizes &open) {
  const std::string sizes = open.of(t);
  return sizes.empty() ? typeText(t.dtype, t.shape) : std::string(dataTypeName(t.dtype)) + "[" + sizes + "]";
}

/// `shape` is the largest where a plan leaves sizes open, and `sizes` says what it depends on.
void addType(const GraphTensor &t, const OpenSizes &open, Json *j) {
  (*j)["dtype"] = dtypeJson(t.dtype);
  (*j)["shape"] = shapeJson(t.shape);
  if (const std::string sizes = open.of(t); !sizes.empty()) (*j)["sizes"] = sizes;
}

Json tensorJson(const GraphTensor &t, const OpenSizes &open) {
  Json j = {{"name", t.name}};
  addType(t, open, &j);
  return j;
}

Json tensorsJson(const std::vector<GraphTensor> &tensors, const OpenSizes &open, bool variables) {
  Json list = Json::array();
  for (const GraphTensor &t : tensors) {
    Json j = tensorJson(t, open);
    j["tensor"] = t.tensor;
    if (variables) j["trainable"] = t.trainable;
    list.push_back(std::move(j));
  }
  return list;
}

Json opsJson(const std::vector<GraphOp> &ops, const OpenSizes &open) {
  Json list = Json::array();
  for (const GraphOp &op : ops) {
    Json inputs = Json::array(), outputs = Json::array(), attrs = Json::object();
    for (const auto &in : op.inputs) inputs.push_back({{"arg", in.slot.text()}, {"tensor", in.tensor}});
    for (const GraphTensor &out : op.outputs) {
      Json j = {{"arg", out.name}, {"tensor", out.tensor}};
      addType(out, open, &j);
      outputs.push_back(std::move(j));
    }
    for (const auto &a : op.attrs) attrs[a.first] = attrJson(a.second);
    Json source = nullptr;
    if (op.range.known()) source = {{"file", op.range.file}, {"line", op.range.line}, {"column", op.range.column}};
    list.push_back({{"name", op.name},
                    {"type", op.type},
                    {"inputs", std::move(inputs)},
                    {"outputs", std::move(outputs)},
                    {"attrs", std::move(attrs)},
                    {"source", std::move(source)},
                    {"loc", op.loc}});
  }
  return list;
}

std::string summaryText(const std::string &name, const GraphFacts &info, const OpenSizes &open, size_t width) {
  std::string text = printableName(name) + ": " + info.format + ", " + countText(info.ops.size(), "op") + "\n";
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const char *kind, const std::vector<GraphTensor> &tensors, size_t limit) {
    for (size_t i = 0; i < tensors.size() && i < limit; ++i)
      rows.push_back({"  " + std::string(kind), tensors[i].name, tensorType(tensors[i], open)});
    if (tensors.size() > limit)
      rows.push_back({"  " + std::string(kind), "... and " + countText(tensors.size() - limit) + " more"});
  };
  for (const SizeInfo &size : open.sizes)
    rows.push_back({"  size", size.name, std::to_string(size.min) + " to " + std::to_string(size.max)});
  for (const PlanDescription::Native &n : open.native)
    rows.push_back({"  code", n.level, countText(n.loops, "image") + ", " + bytesText(n.bytes)});
  add("input", info.inputs, 20);
  add("output", info.outputs, 20);
  add("variable", info.variables, 20);
  text += textTable(rows, width);
  std::map<std::string, size_t> types;
  for (const GraphOp &op : info.ops) ++types[op.type];
  std::vector<std::pair<std::string, size_t>> counts(types.begin(), types.end());
  std::stable_sort(counts.begin(), counts.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
  rows.clear();
  for (size_t i = 0; i < counts.size() && i < 12; ++i)
    rows.push_back({"  " + countText(counts[i].second), counts[i].first});
  if (counts.size() > 12) rows.push_back({"", "... and " + std::to_string(counts.size() - 12) + " other types"});
  return text + textTable(rows, width);
}

std::string opsText(const GraphFacts &info, const OpenSizes &open, size_t width) {
  std::vector<std::vector<std::string>> rows = {{"OP", "TYPE", "INPUTS", "OUTPUTS", "ATTRIBUTES"}};
  for (const GraphOp &op : info.ops) {
    const std::string inputs = joined(op.inputs, " ", [](const auto &in) { return in.tensor; });
    rows.push_back(
        {op.name, op.type, inputs.empty() ? "-" : inputs,
         joined(op.outputs, " ", [&](const GraphTensor &t) { return tensorType(t, open); }),
         joined(op.attrs, " ", [](const auto &a) { return a.first + "=" + printableName(a.second.toString()); })});
  }
  return textTable(rows, width);
}

std::vector<std::pair<GraphTensor, std::string>> allTensors(const GraphFacts &info) {
  std::vector<std::pair<GraphTensor, std::string>> list;
  for (const GraphTensor &t : info.inputs) list.push_back({t, "input"});
  for (const GraphTensor &t : info.variables) list.push_back({t, "variable"});
  for (const GraphOp &op : info.ops)
    for (const GraphTensor &t : op.outputs) list.push_back({t, op.type});
  return list;
}

std::string tensorsText(const GraphFacts &info, const OpenSizes &open, size_t width) {
  std::vector<std::vector<std::string>> rows = {{"TENSOR", "TYPE", "MADE BY"}};
  for (const auto &t : allTensors(info)) rows.push_back({t.first.tensor, tensorType(t.first, open), t.second});
  return textTable(rows, width);
}

Status noSizes() {
  return usageError("--sbp and --stage are for known sizes, and inputs leave dimensions open",
                    "--shape NAME=DIMS closes them");
}

/// `what`: an option with its verb.
Status needsGraph(const GraphInput &input, const std::string &what) {
  if (!input.isPlan && !input.isIr) return Status::ok();
  return usageError(what + " the graph, and " + input.name + (input.isPlan ? " is a plan" : " is IR"),
                    "give it where that is written: opc compile");
}

Status checkPartOfPlan(const std::string &what) {
  if (what == "sbp" || what == "boxing")
    return usageError("a plan has its states already", "opc show GRAPH --mesh M --what " + what);
  if (what == "fusion")
    return usageError("a plan does not say why its ops are alone",
                      "opc show GRAPH --what fusion; --what tasks has the regions of a plan");
  if (what == "phases")
    return usageError("a plan does not know the phases that made it", "opc show GRAPH --what phases");
  return Status::ok();
}

struct ShowCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf(
        "inspect a graph or plan: inputs, outputs, ops, tensors, states, transitions, tasks, fusion, memory, cost, phases",
        "GRAPH|PLAN|IR|-", 1, 1);
    s.examples = {"opc show mlp.pbtxt",
                  "opc show mlp.pbtxt --what memory",
                  "opc show train.pbtxt --what sbp --mesh 2x4",
                  "opc show mlp.pbtxt --as svg -o mlp.svg",
                  "opc show mlp.pbtxt --around fc2 --depth 1",
                  "cat mlp.pbtxt | opc show - --json | jq '.inputs'"};
    s.options = {
        Option{"--what", 0, "", "which part (default summary)", &what_, true}.oneOf(
            {"summary", "ops", "tensors", "sbp", "boxing", "tasks", "fusion", "memory", "cost", "phases"}),
        Option{
            "--as", 0, "",
            "how it is shown: csv of a list; svg of the graph or its memory; of the graph dot, html (opc report), onnx, "
            "model-explorer",
            &as_, true}
            .oneOf({"text", "json", "csv", "svg", "dot", "html", "onnx", "model-explorer"}),
        {"--op", 0, "NAME", "this op, input, variable or output alone", &op_, true},
        {"--around", 0, "NAME", "what stands around it", &around_, true},
        {"--paths", 0, "A..B", "everything on the ways of the data from A to B", &paths_},
        Option{"--depth", 0, "N", "how many edges away (default 2)", &depth_}.from(0),
        {"--output", 'o', "FILE", "where to write; - is standard output (the default)", &output_},
        shapeOption(&shapes_, false, true),
        untilOption(&until_),
        {"--no-fuse", 0, "", "as without fused ops and other layouts: what --what memory, tasks and cost have",
         &noFuse_}};
    for (Option &o : modelFlags_.options()) s.options.push_back(std::move(o));
    for (Option &o : opFlags_.options()) s.options.push_back(std::move(o));
    for (Option &o : mesh_.options()) s.options.push_back(std::move(o));
    s.details = "A graph whose inputs leave dimensions open is shown as written, with ? for what is not known; --shape "
                "closes them. "
                "--json without --what has inputs, outputs, variables and ops. IR (opc compile --emit mlir, mlirbc) is "
                "shown as it is after its phase, for the mesh that it was planned for. git:REV:PATH is a file of a "
                "revision.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    OPC_RETURN_IF_ERROR(checkFlags(invocation));
    graph_ = positional[0];
    OPC_RETURN_IF_ERROR(checkFile(output_, "-o"));
    OPC_RETURN_IF_ERROR(checkEndingAs(isJson(invocation) ? "json" : as_, output_));
    CompileOptions options;
    options.wanted = until_;
    options.fuse = !noFuse_;
    OPC_RETURN_IF_ERROR(opFlags_.apply(&options));
    OPC_ASSIGN_OR_RETURN(
        options.shapes,
        parseFixedShapes(shapes_, "a graph is shown at one size; opc show shows a plan of sizes in a range"));
    OPC_ASSIGN_OR_RETURN(options.mesh, mesh_.request());
    // What a graph is does not depend on where it runs, but for these.
    if (what_ == "tasks" || what_ == "fusion" || what_ == "memory") options.device = invocation.flags().device;
    const bool states = what_ == "sbp" || what_ == "boxing";
    const auto noMesh = [] { return usageError("states are chosen for a mesh", "give --mesh, e.g. --mesh 2x4"); };
    OPC_ASSIGN_OR_RETURN(GraphInput input, readGraphOrRevision(positional[0]));
    invocation.watch().lap("read");
    if (states && !options.mesh && !input.isIr && !input.isPlan) return noMesh();
    OPC_ASSIGN_OR_RETURN(Registry registry, invocation.loadRegistry(input.path));
    if (!until_.empty()) OPC_RETURN_IF_ERROR(needsGraph(input, "--until needs"));
    if (!shapes_.empty() && input.isIr) OPC_RETURN_IF_ERROR(needsGraph(input, "--shape needs"));
    if (opFlags_.any() || noFuse_) OPC_RETURN_IF_ERROR(needsGraph(input, "--no-fuse, " + OpFlags::names() + " need"));
    OPC_ASSIGN_OR_RETURN(options, modelFlags_.applied(input, std::move(options)));
    if (input.isPlan && options.mesh && !states)
      return usageError("--mesh has no effect on a plan: it is for what it was compiled for");
    if (input.isPlan) return showPlan(invocation, input, registry, !options.shapes.empty());

    const bool planned = what_ == "cost" || what_ == "tasks" || (isDrawing() && options.mesh) || as_ == "html";
    const bool onMesh = options.mesh.has_value() || input.isIr;
    Pipeline pipeline(registry, std::move(options));
    bool ok = begin(&pipeline, input);
    if (ok && !until_.empty()) {
      OPC_ASSIGN_OR_RETURN(GraphCut cut, cutAt(until_, pipeline.facts()));
      ok = pipeline.cut(std::move(cut));
    }
    const bool open = ok && hasOpenInputs(pipeline.facts());
    if (open && input.isModel) invocation.showFindings(pipeline.diagnostics(), pipeline.source());
    if (open) OPC_RETURN_IF_ERROR(checkBound(input, pipeline.facts()));
    std::optional<GraphFacts> all;
    if (ok && planned && !(open && as_ == "html"))
      ok = (all = factsOf(&pipeline)).has_value();
    else if (ok && (!open || needsPlan()))
      ok = pipeline.run(what_ == "memory" || what_ == "fusion" ? Phase::kMemory
                        : what_ == "phases"                    ? Phase::kPlan
                        : states                               ? Phase::kBoxing
                        : isDrawing()                          ? Phase::kGrad
                                                               : Phase::kShape);
    if (!ok) return failureOf(pipeline);
    GraphFacts facts = all ? std::move(*all) : factsWithConstants(pipeline);
    // What --sbp and --stage name is there or not, whatever part is shown.
    if (mesh_.namesTensors() && open) return noSizes();
    if (mesh_.namesTensors() && !pipeline.run(Phase::kSbp)) return failureOf(pipeline);
    invocation.watch().lap("compile");
    invocation.showFindings(pipeline.diagnostics(), pipeline.source());
    if (open) invocation.note("note: inputs leave dimensions open; --shape NAME=DIMS closes them");
    if (as_ == "html" && !op_ && !around_ && !paths_) {
      const bool isWhole = shapes_.empty() && until_.empty() && input.path != "-" && !input.isIr;
      std::string plan;
      if (!open && pipeline.run(Phase::kPlan)) plan = pipeline.emit(Emit::kPlan);
      if (!plan.empty()) facts.phases = pipeline.stats();
      return page(invocation, registry, facts, input.name, plan, isWhole ? input.path : "");
    }
    if (what_ == "fusion") return showFusion(invocation, input.name, pipeline.fusion());
    if (states && facts.mesh.placements.empty()) return noMesh();
    if (states && as_ == "csv")
      return write(invocation, csvText(sbpJson(facts.mesh)[what_ == "sbp" ? "ops" : "transitions"]));
    if (states && !isJson(invocation))
      return write(invocation, what_ == "sbp" ? sbpText(facts.mesh, outTableWidth())
                                              : boxingText(facts.mesh, SIZE_MAX, outTableWidth()));
    if (states)
      return write(invocation, jsonText({{"schema", 1}, {"graph", input.name}, {"sbp", sbpJson(facts.mesh)}}));
    if (!onMesh) facts.mesh = {};
    return show(invocation, std::move(facts), {}, input.name);
  }

private:
  /// All of it, as `opc report` gives it. `path`: of the graph as it is; empty for a part of it, or another size.
  Outcome<int> page(Invocation &invocation, const Registry &registry, const GraphFacts &facts, const std::string &name,
                    const std::string &plan, const std::string &path) const {
    GraphPage page{facts, name};
    if (!plan.empty()) OPC_RETURN_IF_ERROR(addTimeline(invocation, registry, mesh_, plan, &page));
    addFindings(registry, path, &page);
    return write(invocation, graphHtml(page));
  }

  Outcome<int> showPlan(Invocation &invocation, const GraphInput &input, const Registry &registry, bool shaped) const {
    if (shaped) return usageError("--shape has no effect on a plan: its shapes are what it was compiled for");
    OPC_RETURN_IF_ERROR(checkPartOfPlan(what_));
    OPC_ASSIGN_OR_RETURN(GraphFacts facts, factsOfPlan(input.bytes, registry));
    OPC_ASSIGN_OR_RETURN(PlanDescription plan, describePlan(input.bytes, registry));
    return show(invocation, std::move(facts), {plan.sizes, plan.sizesOf, plan.native}, input.name);
  }

  /// A table has the ops that are alone.
  Outcome<int> showFusion(Invocation &invocation, const std::string &name, const FusionFacts &fusion) const {
    if (as_ == "csv") return write(invocation, csvText(fusionJson(fusion)["alone"]));
    if (!isJson(invocation)) return write(invocation, fusionText(fusion, output_.empty() ? outTableWidth() : 0));
    return write(invocation, jsonText({{"schema", 1}, {"graph", name}, {"fusion", fusionJson(fusion)}}));
  }

  bool isDrawing() const { return as_ != "text" && as_ != "json" && as_ != "csv"; }
  bool needsPlan() const {
    return what_ == "memory" || what_ == "phases" || what_ == "fusion" || what_ == "sbp" || what_ == "boxing";
  }
  bool isJson(Invocation &invocation) const { return as_ == "json" || invocation.flags().json; }

  Status checkFlags(Invocation &invocation) {
    if (invocation.flags().json && as_ != "text" && as_ != "json")
      return usageError("--json and --as " + as_ + " exclude each other");
    if (as_ == "svg" && what_ != "summary" && what_ != "ops" && what_ != "memory")
      return usageError("there is no drawing of " + what_,
                        "--as svg draws the graph, and with --what memory its memory");
    if (as_ == "model-explorer" && what_ == "cost" && (output_.empty() || output_ == "-"))
      return usageError("operations and bytes are two files", "give -o FILE.json; the second is beside it");
    const bool isCosts = as_ == "model-explorer" && what_ == "cost";
    if (isDrawing() && as_ != "svg" && !isCosts && what_ != "summary" && what_ != "ops")
      return usageError("--as " + as_ + " is the graph, not its " + what_);
    if ((op_ ? 1 : 0) + (around_ ? 1 : 0) + (paths_ ? 1 : 0) > 1)
      return usageError("--op, --around and --paths exclude each other");
    if (depth_ && !around_) return usageError("--depth is how far --around goes", "give --around NAME");
    const bool part = op_ || around_ || paths_;
    if (part && what_ == "summary" && !isDrawing()) what_ = "ops";
    if (part && what_ != "ops" && what_ != "tensors" && what_ != "summary")
      return usageError(std::string(op_       ? "--op"
                                    : around_ ? "--around"
                                              : "--paths") +
                        " is for ops and tensors, not for " + what_);
    return Status::ok();
  }

  /// The second file beside -o: that of what does not go into the first one.
  std::string secondPath(const std::string &ending) const {
    std::filesystem::path second = output_;
    second.replace_extension(ending + second.extension().string());
    return second.string();
  }

  /// No output replaces what is read.
  Status checkFile(const std::string &path, const std::string &option) const {
    FileUse files;
    files.readsGraph(graph_, "the graph");
    return path == "-" ? Status::ok() : files.writes(path, option);
  }

  Outcome<int> write(Invocation &invocation, const std::string &text) const {
    if (output_.empty() || output_ == "-") {
      if (isDrawing())
        invocation.terminal().file(text);
      else
        invocation.terminal().out(text);
      return kExitOk;
    }
    OPC_RETURN_IF_ERROR(writeFileAtomically(output_, text));
    return kExitOk;
  }

  /// Forward ops in the file that was named, all others in one beside it.
  Outcome<int> writeOnnx(Invocation &invocation, const GraphFacts &facts, const std::string &name) const {
    if (hasOpenInputs(facts))
      return usageError("a model says all shapes, and inputs leave dimensions open", "--shape NAME=DIMS closes them");
    const std::string forward = onnxModel(facts, name, OnnxPart::kForward);
    const bool isStream = output_.empty() || output_ == "-";
    if (hasBackwardPart(facts)) {
      if (isStream)
        return usageError("forward and backward ops are two files", "give -o FILE.onnx; the second is beside it");
      const std::string second = secondPath(".backward");
      OPC_RETURN_IF_ERROR(checkFile(second, "the file beside -o"));
      OPC_RETURN_IF_ERROR(writeFileAtomically(second, onnxModel(facts, name, OnnxPart::kBackward)));
      invocation.note("backward ops and updates are in " + printableName(second));
    }
    return write(invocation, forward);
  }

  /// What colours the nodes in Model Explorer: a file for each measure.
  Outcome<int> writeCosts(Invocation &invocation, const GraphFacts &facts, const std::string &name) const {
    const std::string second = secondPath(".bytes");
    OPC_RETURN_IF_ERROR(checkFile(second, "the file beside -o"));
    const Json bytes = modelExplorerCosts(facts, name, &GraphOp::bytes, "bytes");
    OPC_RETURN_IF_ERROR(writeFileAtomically(second, jsonText(bytes)));
    invocation.note("bytes are in " + printableName(second));
    return write(invocation, jsonText(modelExplorerCosts(facts, name, &GraphOp::flops, "operations")));
  }

  /// --op may name an input, a variable or an output, which the table of ops does not have.
  std::string opsOrPortsText(const std::string &name, const GraphFacts &info, const OpenSizes &open,
                             size_t width) const {
    return op_ && info.ops.empty() ? summaryText(name, info, open, width) : opsText(info, open, width);
  }

  Outcome<int> show(Invocation &invocation, GraphFacts info, const OpenSizes &open, const std::string &name) const {
    if (op_) OPC_RETURN_IF_ERROR(selectAround(*op_, 0, "--op", &info));
    if (around_) OPC_RETURN_IF_ERROR(selectAround(*around_, depth_.value_or(2), "--around", &info));
    if (paths_) OPC_RETURN_IF_ERROR(selectPaths(*paths_, &info));
    if (as_ == "html") return write(invocation, graphHtml({info, name}));
    if (as_ == "model-explorer" && what_ == "cost") return writeCosts(invocation, info, name);
    if (as_ == "model-explorer") return write(invocation, jsonText(modelExplorerJson(info, name)));
    if (as_ == "dot") return write(invocation, graphDot(info, name));
    if (as_ == "onnx") return writeOnnx(invocation, info, name);
    if (as_ == "svg") return write(invocation, what_ == "memory" ? memorySvg(info.memory, name) : graphSvg(info, name));
    if (as_ == "text" && !isJson(invocation)) {
      const size_t width = output_.empty() ? outTableWidth() : 0;
      return write(invocation, what_ == "summary"   ? summaryText(name, info, open, width)
                               : what_ == "ops"     ? opsOrPortsText(name, info, open, width)
                               : what_ == "tensors" ? tensorsText(info, open, width)
                               : what_ == "memory"  ? memoryText(info.memory)
                               : what_ == "cost"    ? costText(info, width)
                               : what_ == "tasks"   ? tasksText(info, width)
                                                    : phasesText(info.phases));
    }
    Json document = {{"schema", 1}, {"graph", name}, {"format", info.format}};
    if (!open.sizes.empty()) document["sizes"] = open.json();
    if (!open.native.empty()) document["native"] = open.nativeJson();
    if (what_ == "memory") {
      document["memory"] = memoryJson(info.memory, true);
    } else if (what_ == "cost") {
      addCostJson(info, &document);
    } else if (what_ == "tasks") {
      document["tasks"] = tasksJson(info);
    } else if (what_ == "phases") {
      document["phases"] = phasesJson(info.phases);
    } else if (what_ == "tensors") {
      Json list = Json::array();
      for (const auto &t : allTensors(info)) {
        Json j = tensorJson(t.first, open);
        j["name"] = t.first.tensor;
        j["made_by"] = t.second;
        list.push_back(std::move(j));
      }
      document["tensors"] = std::move(list);
    } else {
      document["inputs"] = tensorsJson(info.inputs, open, false);
      document["outputs"] = tensorsJson(info.outputs, open, false);
      document["variables"] = tensorsJson(info.variables, open, true);
      document["ops"] = opsJson(info.ops, open);
    }
    if (as_ == "csv") return write(invocation, csvText(listOf(document)));
    return write(invocation, jsonText(document));
  }

  /// What a table shows of a document.
  Json listOf(const Json &document) const {
    if (what_ == "memory") return document["memory"]["slots"];
    return document[what_ == "summary" || what_ == "cost" ? "ops" : what_];
  }

  std::string what_ = "summary", as_ = "text", output_, graph_;
  std::optional<std::string> op_, around_, paths_;
  std::optional<int64_t> depth_;
  std::vector<std::string> shapes_, until_;
  ModelFlags modelFlags_;
  OpFlags opFlags_;
  bool noFuse_ = false;
  MeshFlags mesh_;
};

} // namespace

std::unique_ptr<Command> makeShowCommand() { return std::make_unique<ShowCommand>(); }

} // namespace opc::cli
