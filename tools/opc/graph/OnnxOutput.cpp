// opc compile --emit onnx: a graph as an ONNX model, with its weights.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxOutput.h"

#include "ControlFacts.h"
#include "FileBytes.h"
#include "GraphConstants.h"
#include "GraphInput.h"
#include "NumberText.h"
#include "OnnxExport.h"
#include "Session.h"
#include "TextParts.h"
#include "ValueGiver.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>

namespace opc::cli {

namespace {

constexpr size_t kMaxModel = (size_t{1} << 31) - 1; // what protobuf can hold

StoredTensor stored(HostTensor tensor) {
  const auto owner = std::make_shared<const HostTensor>(std::move(tensor));
  return {owner->desc(), std::string_view(owner->as<char>(), owner->bytes()), owner};
}

/// Takes off the ops that do nothing for an output, and the variables that no other reads: a plan has neither.
void dropUnread(const Registry &registry, GraphFacts *facts) {
  std::set<std::string> read;
  for (const GraphTensor &output : facts->outputs) read.insert(output.tensor);
  std::vector<GraphOp> kept;
  for (auto op = facts->ops.rbegin(); op != facts->ops.rend(); ++op) {
    const user_op::OpDef *def = registry.findOp(op->type);
    const bool isNeeded =
        !def || !def->pure ||
        std::any_of(op->outputs.begin(), op->outputs.end(), [&](const GraphTensor &t) { return read.count(t.tensor); });
    if (!isNeeded) continue;
    for (const auto &input : op->inputs) read.insert(input.second);
    kept.push_back(std::move(*op));
  }
  facts->ops.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(facts->variables, [&](const GraphTensor &v) { return !read.count(v.tensor); });
}

/// One finding for all ops: each reason, how many ops have it, and the first of them.
Diagnostic withoutForm(const std::vector<UnexportedOp> &ops) {
  struct Group {
    const UnexportedOp *first;
    size_t count;
  };
  std::map<std::string, Group> groups;
  for (const UnexportedOp &op : ops) {
    const auto [it, isNew] = groups.try_emplace(op.type + ": " + op.reason, Group{&op, 0});
    ++it->second.count;
    (void)isNew;
  }
  Diagnostic d;
  d.code = "OPC0423";
  d.message = counted(ops.size(), "op") + " cannot be written as ONNX";
  d.range = ops.front().range;
  for (const auto &[text, group] : groups) {
    const SourceRange &range = group.first->range;
    std::string note = text + "; " + counted(group.count, "op") + ", the first is " + group.first->name;
    if (range.known()) note += " (" + range.file + ":" + std::to_string(range.line) + ")";
    d.notes.push_back(std::move(note));
  }
  d.help = "docs/onnx.md has the ops that can be written, and in which operator set";
  return d;
}

} // namespace

std::vector<Option> OnnxOutput::options() {
  return {Option{"--opset", 0, "N",
                 "--emit onnx: ONNX's operator set, " + std::to_string(kOldestExport) + " to " +
                     std::to_string(kNewestExport) + " (default: the oldest that serves)",
                 &opset_}
              .from(1),
          {"--weights", 0, "FILE", "--emit onnx: variables by name from npz or safetensors (repeatable)", &weights_},
          {"--partial-weights", 0, "",
           "--emit onnx: variables that no file of --weights has begin as the graph initialises them",
           &partialWeights_}};
}

Status OnnxOutput::check(bool isOnnx) const {
  if (!isOnnx && isGiven()) {
    const bool isOfWeights = partialWeights_ || !weights_.empty();
    const std::string option = !isOfWeights ? "--opset" : weights_.empty() ? "--partial-weights" : "--weights";
    return usageError(option + " is for --emit onnx",
                      isOfWeights ? "opc run GRAPH --weights FILE runs with weights" : "");
  }
  if (partialWeights_ && weights_.empty())
    return usageError("--partial-weights says how --weights is read; give --weights");
  if (opset_ != 0 && (opset_ < kOldestExport || opset_ > kNewestExport))
    return usageError("--opset " + std::to_string(opset_) + ": opc writes the operator sets " +
                          std::to_string(kOldestExport) + " to " + std::to_string(kNewestExport),
                      "leave --opset out for the oldest that serves");
  return Status::ok();
}

std::string OnnxOutput::dataPath(const std::string &output) { return output == "-" ? "" : output + ".data"; }

Result<std::map<std::string, StoredTensor>> OnnxOutput::values(Pipeline &pipeline, const Registry &registry,
                                                               GraphFacts *facts) const {
  std::map<std::string, StoredTensor> values = pipeline.values();
  const bool draws = std::any_of(facts->variables.begin(), facts->variables.end(),
                                 [&](const GraphTensor &v) { return !v.initializer.empty() && !values.count(v.name); });
  if (!draws && weights_.empty()) return values;
  // The runtime knows what variables begin with: the graph is compiled to a plan, and the plan is asked.
  if (!pipeline.run(Phase::kPlan))
    return Status(StatusCode::kInvalidGraph, "OPC0612",
                  "the variables of a graph that cannot be compiled have no values");
  const std::string plan = pipeline.emit(Emit::kPlan);
  OPC_ASSIGN_OR_RETURN(Session session, Session::load(plan, registry));
  std::set<std::string> elsewhere;
  for (const GraphTensor &input : facts->inputs) elsewhere.insert(input.name);
  ValueFlags flags;
  flags.weights = weights_;
  flags.partialWeights = partialWeights_;
  flags.program = "opc compile";
  OPC_ASSIGN_OR_RETURN(const NamedValues none, flags.open());
  OPC_ASSIGN_OR_RETURN(const ValueReport report, giveValues(session, none, flags, {}, elsewhere));
  std::set<std::string> known;
  for (const VariableInfo &v : session.interface().variables) known.insert(v.name);
  if (std::any_of(facts->variables.begin(), facts->variables.end(),
                  [&](const GraphTensor &v) { return !known.count(v.name); }))
    dropUnread(registry, facts);
  for (const GraphTensor &v : facts->variables) {
    if (!known.count(v.name) && values.count(v.name)) continue; // the model's own
    OPC_ASSIGN_OR_RETURN(HostTensor value, session.variable(v.name));
    values.insert_or_assign(v.name, stored(std::move(value)));
  }
  return values;
}

Outcome<std::map<std::string, InnerGraph>> OnnxOutput::innerGraphs(const GraphFacts &facts, const Registry &registry,
                                                                   const SourceText &source) {
  std::vector<Diagnostic> unread;
  auto graphs = controlFacts(facts, registry, source.name, &unread);
  if (!unread.empty()) return Failure(unread, unread.size(), StatusCode::kInvalidGraph, source);
  return graphs;
}

Outcome<size_t> OnnxOutput::write(Invocation &invocation, Pipeline &pipeline, const Registry &registry,
                                  const std::string &output) const {
  GraphFacts facts = pipeline.facts();
  ExportRequest request;
  request.name = pipeline.source().name;
  if (opset_) request.opset = opset_;
  request.constants = graphConstants(pipeline, registry);
  OPC_ASSIGN_OR_RETURN(request.graphs, innerGraphs(facts, registry, pipeline.source()));
  OPC_ASSIGN_OR_RETURN(request.variables, values(pipeline, registry, &facts));
  return writeModel(invocation, facts, registry, std::move(request), pipeline.source(), output);
}

Outcome<size_t> OnnxOutput::writeModel(Invocation &invocation, const GraphFacts &facts, const Registry &registry,
                                       ExportRequest request, const SourceText &source, const std::string &output) {
  const std::string data = dataPath(output);
  request.dataFile = std::filesystem::path(data).filename().string();
  const ExportedModel model = exportModel(facts, registry, request);
  if (!model.refused.empty()) return Failure({withoutForm(model.refused)}, 1, StatusCode::kUnsupported, source);
  if (model.bytes.empty() || model.bytes.size() > kMaxModel)
    return Status(StatusCode::kUnsupported, "OPC0112",
                  "the model would have more than 2 GiB in one file, which protobuf cannot hold")
        .withHelp("give -o FILE: large tensors go to a file beside it");
  if (output.empty()) return model.bytes.size() + model.data.size();
  for (const std::string &name : model.next)
    invocation.note("note: output " + name + " is what the variable holds after a step");
  if (output == "-") {
    invocation.terminal().file(model.bytes);
    return model.bytes.size();
  }
  // Whoever reads the model follows no link to its data.
  if (!model.data.empty() && std::filesystem::is_symlink(std::filesystem::symlink_status(data)))
    return Status(StatusCode::kUsage, "OPC0707", data + " is a symbolic link, and large tensors would go there")
        .withHelp("remove the link, or give another -o FILE");
  // The data first: a model is never there without it.
  if (!model.data.empty()) OPC_RETURN_IF_ERROR(writeFileAtomically(data, model.data));
  OPC_RETURN_IF_ERROR(writeFileAtomically(output, model.bytes));
  if (!model.data.empty()) invocation.note("note: tensors over 1 MiB are in " + data);
  return model.bytes.size() + model.data.size();
}

} // namespace opc::cli
