// --until, --feed, --only, --output: names on the command line to tensors and ops of the graph.
// SPDX-License-Identifier: Apache-2.0
#include "RunCut.h"

#include <algorithm>
#include <fnmatch.h>
#include <set>

namespace opc::cli {

namespace {

/// The tensor that the user means: its own name, an op with one output, or an output of the graph.
Result<std::string> findTensor(const GraphFacts &info, const std::string &text, const std::string &flag) {
  std::vector<std::string> names;
  for (const auto *list : {&info.inputs, &info.variables})
    for (const GraphTensor &t : *list) {
      if (text == t.tensor || text == t.name) return t.tensor;
      names.push_back(t.tensor);
    }
  for (const GraphOp &op : info.ops) {
    for (const GraphTensor &t : op.outputs) {
      if (text == t.tensor) return t.tensor;
      names.push_back(t.tensor);
    }
    names.push_back(op.name);
    if (text != op.name) continue;
    if (op.outputs.size() == 1) return op.outputs[0].tensor;
    std::string help;
    for (const GraphTensor &t : op.outputs) help += (help.empty() ? "say which: " : ", ") + t.tensor;
    return usageError(
        "op " + text + " makes " + std::to_string(op.outputs.size()) + " tensors (" + flag + " " + text + ")", help);
  }
  for (const GraphTensor &t : info.outputs)
    if (text == t.name) return t.tensor;
  return noSuchName("tensor", text, names, flag + " " + text, "opc show GRAPH --what tensors");
}

} // namespace

Option untilOption(std::vector<std::string> *to) {
  return {"--until", 0, "TENSOR",
          "stop at this tensor and make it the output: relu0/out_0, or an op's name (repeatable)", to};
}

Result<GraphCut> cutAt(const std::vector<std::string> &tensors, const GraphFacts &info) {
  GraphCut cut;
  for (const std::string &text : tensors) {
    OPC_ASSIGN_OR_RETURN(std::string tensor, findTensor(info, text, "--until"));
    const bool twice = std::any_of(cut.until.begin(), cut.until.end(), [&](const auto &u) { return u.second == text; });
    if (!twice) cut.until.push_back({tensor, text});
  }
  return cut;
}

GraphCut cutToOutputs(const std::vector<std::string> &names, const GraphFacts &info) {
  GraphCut cut;
  const std::set<std::string> wanted(names.begin(), names.end());
  for (const GraphTensor &t : info.outputs)
    if (wanted.count(t.name)) cut.outputs.push_back(t.name);
  const bool isAll = cut.outputs.size() == info.outputs.size();
  return isAll || cut.outputs.size() != wanted.size() ? GraphCut() : cut;
}

std::vector<Option> CutFlags::options() {
  return {
      untilOption(&until_),
      {"--feed", 0, "TENSOR=SPEC", "give a tensor inside the graph a value; what only it needs is not run (repeatable)",
       &feeds_},
      {"--only", 0, "GLOB", "run the ops whose names fit, on their own (repeatable); what they read becomes an input",
       &only_},
  };
}

Status CutFlags::open() {
  OPC_ASSIGN_OR_RETURN(feedValues_, NamedValues::open(feeds_, "", "--feed"));
  return Status::ok();
}

Result<GraphCut> CutFlags::resolve(const GraphFacts &info, NamedValues *inputs) {
  OPC_ASSIGN_OR_RETURN(GraphCut cut, cutAt(until_, info));
  for (const std::string &glob : only_) {
    std::vector<std::string> names;
    bool any = false;
    for (const GraphOp &op : info.ops) {
      names.push_back(op.name);
      if (fnmatch(glob.c_str(), op.name.c_str(), 0) != 0) continue;
      any = true;
      cut.only.push_back(op.name);
    }
    if (!any) return noSuchName("op", glob, names, "--only " + glob);
  }
  for (const std::string &text : feedValues_.flagNames()) {
    OPC_ASSIGN_OR_RETURN(std::string tensor, findTensor(info, text, "--feed"));
    std::string name = tensor;
    for (const GraphTensor &t : info.inputs)
      if (t.tensor == name) name = t.name; // an input is fed under its own name
    if (name == tensor) cut.feeds.push_back(name);
    feedValues_.rename(text, name);
  }
  OPC_RETURN_IF_ERROR(inputs->absorb(std::move(feedValues_), "--feed"));
  return cut;
}

namespace {
bool takesValue(const GraphFacts &info, const std::string &name) {
  for (const auto *list : {&info.inputs, &info.variables})
    for (const GraphTensor &t : *list)
      if (t.name == name) return true;
  return false;
}

void drop(const std::string &name, NamedValues *inputs, std::vector<std::string> *notes) {
  inputs->drop(name);
  notes->push_back("the part of the graph that runs does not need " + name);
}
} // namespace

void dropUnneeded(const GraphFacts &whole, const GraphFacts &cut, NamedValues *inputs,
                  std::vector<std::string> *notes) {
  for (const std::string &name : inputs->flagNames())
    if (takesValue(whole, name) && !takesValue(cut, name)) drop(name, inputs, notes);
}

void dropUnneededFeeds(const GraphFacts &cut, NamedValues *inputs, std::vector<std::string> *notes) {
  for (const std::string &name : inputs->flagNames())
    if (inputs->flagOf(name) == "--feed" && !takesValue(cut, name)) drop(name, inputs, notes);
}

} // namespace opc::cli
