// opc compile --emit onnx: a graph as an ONNX model, with its weights.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxOutput.h"

#include "ControlFacts.h"
#include "FileBytes.h"
#include "FilePieces.h"
#include "GraphConstants.h"
#include "GraphInput.h"
#include "NumberText.h"
#include "OnnxExport.h"
#include "PlanFile.h"
#include "PrintableText.h"
#include "Session.h"
#include "TextParts.h"
#include "ValueGiver.h"
#include "WriteFailure.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
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

namespace fs = std::filesystem;

fs::path folderOf(const fs::path &file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

/// Nothing lies beside the standard output, a pipe or a device.
bool hasFolder(const std::string &output) {
  std::error_code error;
  return output != "-" && (fs::is_regular_file(output, error) || !fs::exists(output, error));
}

constexpr size_t kDigits = 16; // of a file's content, in its name
constexpr const char *kData = ".data";

FilePieces piecesOf(const ExternalData &data) {
  std::vector<std::pair<size_t, StoredTensor>> numbered;
  for (const StoredTensor &piece : data) numbered.emplace_back(numbered.size(), piece);
  const auto pages = pagesOf(numbered);
  FilePieces pieces;
  for (const StoredTensor &piece : data) pieces.add(piece.bytes, pages.at(piece.owner.get()), piece.owner);
  return pieces;
}

/// "MODEL.DIGITS.data". Other data never has the name: a model and the data of another one, written before or after
/// it, are no pair, whatever ended the writing.
std::string dataName(const std::string &model, const FilePieces &data) {
  char digits[kDigits + 1];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, planChecksum(data));
  return model + "." + digits + kData;
}

/// f(part) for parts of a file, each of which has the first `overlap` bytes of the next one, too, until one of them
/// is true. Models may have their weights in them: what has been looked at goes.
template <class F> bool anyPart(const FileBytes &file, size_t overlap, F f) {
  constexpr size_t kPart = 1 << 20;
  const std::string_view bytes = file.view();
  for (size_t at = 0; at < bytes.size(); at += kPart) {
    if (f(bytes.substr(at, kPart + overlap))) return true;
    file.letGo(bytes);
  }
  return false;
}

bool mentions(const FileBytes &file, const std::string &name) {
  return anyPart(file, name.size(), [&](std::string_view part) { return part.find(name) != std::string_view::npos; });
}

bool isSame(const FilePieces &data, const FileBytes &file) {
  std::string_view left = file.view();
  return data.size() == left.size() && data.write([&](std::string_view piece) {
                                             const bool isEqual = left.substr(0, piece.size()) == piece;
                                             left.remove_prefix(piece.size());
                                             file.letGo(file.view());
                                             return isEqual ? Status::ok() : Status(StatusCode::kUsage, "", "");
                                           })
                                           .isOk();
}

/// The names of that form in the bytes of a model, and the one that earlier versions gave.
void addDataNames(std::string_view bytes, const std::string &model, std::set<std::string> *names) {
  const std::string start = model + ".", old = model + kData;
  for (size_t at = bytes.find(start); at != std::string_view::npos; at = bytes.find(start, at + 1)) {
    const std::string_view rest = bytes.substr(at + start.size(), kDigits + 5);
    if (bytes.substr(at, old.size()) == old) names->insert(old);
    if (rest.size() == kDigits + 5 && rest.substr(kDigits) == kData &&
        rest.find_first_not_of("0123456789abcdef") == kDigits)
      names->insert(start + std::string(rest));
  }
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

/// Of nodes that are ops of opc.
std::string ownNodesText(const std::map<std::string, size_t> &ops) {
  size_t nodes = 0;
  std::string names;
  for (const auto &[op, count] : ops) {
    nodes += count;
    names += (names.empty() ? "" : ", ") + op;
  }
  return "note: " + counted(nodes, "node") + " of the domain opc, which opc alone runs: ONNX has no form of " + names;
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

std::vector<std::string> OnnxOutput::replacedData(const std::string &output) {
  if (output.empty() || !hasFolder(output)) return {};
  const fs::path model(followLinks(output));
  const Result<FileBytes> before = FileBytes::open(model.string());
  std::set<std::string> names;
  const std::string own = model.filename().string();
  if (before)
    anyPart(*before, own.size() + 1 + kDigits + 5, [&](std::string_view part) {
      addDataNames(part, own, &names);
      return false;
    });
  std::error_code error;
  for (fs::directory_iterator it(folderOf(model), error), end; !error && !names.empty() && it != end;
       it.increment(error)) {
    const fs::path ending = it->path().extension();
    std::error_code unseen;
    if ((ending != ".onnx" && ending != ".pb") || it->path().filename() == model.filename() ||
        !it->is_regular_file(unseen))
      continue;
    const Result<FileBytes> other = FileBytes::open(it->path().string());
    std::erase_if(names, [&](const std::string &n) { return !other || mentions(*other, n); });
  }
  std::vector<std::string> paths;
  for (const std::string &name : names)
    if (fs::is_regular_file(fs::symlink_status(model.parent_path() / name, error)))
      paths.push_back((model.parent_path() / name).string());
  return paths;
}

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
  for (const PortInfo &v : session.interface().variables) known.insert(v.name);
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

/// A plan has neither.
void OnnxOutput::dropUnread(const Registry &registry, GraphFacts *facts) {
  std::set<std::string> read;
  for (const GraphTensor &output : facts->outputs) read.insert(output.tensor);
  std::vector<GraphOp> kept;
  for (auto op = facts->ops.rbegin(); op != facts->ops.rend(); ++op) {
    const user_op::OpDef *def = registry.findOp(op->type);
    const bool isNeeded =
        !def || !def->pure ||
        std::any_of(op->outputs.begin(), op->outputs.end(), [&](const GraphTensor &t) { return read.count(t.tensor); });
    if (!isNeeded) continue;
    for (const auto &input : op->inputs) read.insert(input.tensor);
    kept.push_back(std::move(*op));
  }
  facts->ops.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(facts->variables, [&](const GraphTensor &v) { return !read.count(v.tensor); });
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
  if (pipeline.errorCount() > 0) return failureOf(pipeline);
  OPC_ASSIGN_OR_RETURN(request.graphs, innerGraphs(facts, registry, pipeline.source()));
  OPC_ASSIGN_OR_RETURN(request.variables, values(pipeline, registry, &facts));
  return writeModel(invocation, facts, registry, std::move(request), pipeline.source(), output);
}

Outcome<size_t> OnnxOutput::writeModel(Invocation &invocation, const GraphFacts &facts, const Registry &registry,
                                       ExportRequest request, const SourceText &source, const std::string &output) {
  if (output.empty() || hasFolder(output))
    request.dataFile = [name = fs::path(followLinks(output)).filename().string()](const ExternalData &data) {
      return dataName(name, piecesOf(data));
    };
  const ExportedModel model = exportModel(facts, registry, request);
  if (!model.refused.empty()) return Failure({withoutForm(model.refused)}, 1, StatusCode::kUnsupported, source);
  if (model.bytes.empty() || model.bytes.size() > kMaxModel)
    return Status(StatusCode::kUnsupported, "OPC0112",
                  "the model would have more than 2 GiB in one file, which protobuf cannot hold")
        .withHelp("give -o FILE: large tensors go to a file beside it");
  const FilePieces data = piecesOf(model.data);
  if (output.empty()) return model.bytes.size() + data.size();
  for (const std::string &name : model.next)
    invocation.note("note: output " + name + " is what the variable holds after a step");
  if (!model.ownNodes.empty()) invocation.note(ownNodesText(model.ownNodes));
  if (output == "-") {
    invocation.terminal().file(model.bytes);
    return model.bytes.size();
  }
  OPC_RETURN_IF_ERROR(writeFiles(invocation, model, output));
  return model.bytes.size() + data.size();
}

/// Until the model has its name, the one that it replaces has its own data, and after that what it needs is there.
Status OnnxOutput::writeFiles(Invocation &invocation, const ExportedModel &model, const std::string &output) {
  const FilePieces data = piecesOf(model.data);
  const std::vector<std::string> old = replacedData(output);
  const std::string path = (fs::path(followLinks(output)).parent_path() / model.dataFile).string();
  AtomicFile file, beside;
  bool isNew = false;
  if (!data.empty()) {
    std::error_code error;
    // Whoever reads the model follows no link to its data.
    if (fs::is_symlink(fs::symlink_status(path, error)))
      return Status(StatusCode::kUsage, "OPC0707", path + " is a symbolic link, and large tensors would go there")
          .withHelp("remove the link, or give another -o FILE");
    const Result<FileBytes> there = FileBytes::open(path);
    isNew = !there || !isSame(data, *there);
  }
  if (isNew) {
    OPC_RETURN_IF_ERROR(beside.open(path));
    OPC_RETURN_IF_ERROR(data.write([&](std::string_view piece) { return beside.write(piece.data(), piece.size()); }));
  }
  OPC_RETURN_IF_ERROR(file.open(output));
  OPC_RETURN_IF_ERROR(file.write(model.bytes.data(), model.bytes.size()));
  if (isNew) OPC_RETURN_IF_ERROR(beside.commit());
  if (Status s = file.commit(); !s) {
    std::error_code error;
    if (isNew) fs::remove(path, error);
    return s;
  }
  for (const std::string &other : old) {
    std::error_code error;
    if (other != path) fs::remove(other, error);
  }
  if (!data.empty()) invocation.note("note: tensors over 1 MiB are in " + printableName(path));
  return Status::ok();
}

} // namespace opc::cli
