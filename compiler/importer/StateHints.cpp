// States that a graph file asks for: on the names of what ops read, in nd_sbp, and in job_parallel_view_conf.
// SPDX-License-Identifier: Apache-2.0
#include "StateHints.h"

#include "NdSbp.h"
#include "NearestNames.h"
#include "OpcDialect.h"
#include "TextParts.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace opc {
namespace {

std::string stateText(const graph::SbpParallel &s) {
  if (s.has_split_parallel()) return "S(" + std::to_string(s.split_parallel().axis()) + ")";
  return s.has_partial_sum_parallel() ? "P" : s.has_broadcast_parallel() ? "B" : "";
}

std::string stateText(const graph::NdSbp &nd) {
  std::string text;
  for (const auto &s : nd.sbp_parallel()) text += (text.empty() ? "" : ", ") + stateText(s);
  return text;
}

/// What an input or an output says of its own state.
const graph::NdSbp *ofInterface(const graph::OperatorConf &conf) {
  if (conf.has_input_conf()) return &conf.input_conf().blob_conf().nd_sbp();
  return conf.has_output_conf() ? &conf.output_conf().blob_conf().nd_sbp() : nullptr;
}

bool isOutput(const graph::OperatorConf &conf) { return conf.has_output_conf() || conf.has_return_conf(); }

/// What OneFlow's sources read to be run at all.
constexpr char kTick[] = "tick";

} // namespace

std::string withoutHints(std::string name) {
  if (name.size() > 2 && name.compare(name.size() - 2, 2, "|n") == 0) name.resize(name.size() - 2);
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos || colon + 1 >= name.size()) return name;
  const std::string hint = name.substr(colon + 1);
  const bool split = hint[0] == 'S' && hint.size() > 1 &&
                     std::all_of(hint.begin() + 1, hint.end(), [](char c) { return c >= '0' && c <= '9'; });
  return split || hint == "B" || hint == "P" ? name.substr(0, colon) : name;
}

StateHints::StateHints(MLIRContext *context, const GraphNodes &graph) : context_(context), graph_(graph) {
  const auto &view = graph.file.job->job_parallel_view_conf();
  for (const auto &op : view.op_name2sbp_signature_conf())
    for (const auto &e : op.value().bn_in_op2sbp_parallel())
      if (std::string s = stateText(e.value()); !s.empty()) view_[op.key()].push_back({e.key(), s});
  for (const auto &op : view.op_name2nd_sbp_signature_conf())
    for (const auto &e : op.value().bn_in_op2nd_sbp())
      if (std::string text = stateText(e.value()); !text.empty()) view_[op.key()].push_back({e.key(), text});
}

Attribute StateHints::attribute(const std::string &states) const {
  if (states.empty()) return UnitAttr::get(context_);
  if (const auto known = parseNdSbp(states)) return ir::StateAttr::get(context_, *known);
  return StringAttr::get(context_, states); // complained of when states are assigned
}

std::string StateHints::hintOf(const std::string &name) const {
  if (name.find(':') == name.npos || graph_.producers.count(name)) return "";
  const std::string rest = withoutHints(name);
  if (rest.size() + 1 >= name.size() || name[rest.size()] != ':') return "";
  std::string hint = name.substr(rest.size() + 1);
  if (const size_t bar = hint.find('|'); bar != std::string::npos) hint.resize(bar);
  return hint;
}

std::vector<std::string> StateHints::ownStates(const Node &node) const {
  std::vector<std::string> states;
  for (const std::string &name : node.reads) states.push_back(hintOf(name));
  states.resize(node.reads.size() + (node.def ? node.makes.size() : isOutput(*node.conf) ? 0 : 1));
  const auto made = [&](const auto &nd) {
    for (const std::string &s : nd) states[0] += (states[0].empty() ? "" : ", ") + s;
  };
  if (node.conf->has_variable_conf()) {
    const graph::VariableOpConf &conf = node.conf->variable_conf();
    made(conf.nd_sbp());
    if (conf.split_axis().has_value() && conf.split_axis().value() >= 0)
      states[0] = "S(" + std::to_string(conf.split_axis().value()) + ")";
  } else if (node.def && node.reads.empty() && states.size() == 1) { // OneFlow's sources have it as an attribute
    const auto attr = node.user.attrs.find("nd_sbp");
    if (attr != node.user.attrs.end())
      if (const auto *list = attr->second.get<std::vector<std::string>>()) made(*list);
  } else if (const graph::NdSbp *nd = ofInterface(*node.conf); nd && states[0].empty()) { // a hint comes first
    states[0] = stateText(*nd);
  }
  return states;
}

StateHints::Slots StateHints::slotsOf(const Node &node) {
  if (!node.def) return {{"out", 0}, {"in", 0}}; // an output shows what it reads
  Slots slots;
  size_t flat = 0;
  for (const auto *list : {&node.user.inputs, &node.user.outputs})
    for (const auto &b : *list)
      for (size_t t = 0; t < b.tensors.size(); ++t, ++flat) {
        slots.emplace(b.name + "_" + std::to_string(t), flat);
        if (b.tensors.size() == 1) slots.emplace(b.name, flat); // of ops that OneFlow has no definition for
      }
  return slots;
}

ArrayAttr StateHints::of(const Node &node) const {
  const graph::OperatorConf &conf = *node.conf;
  if (!node.def && !isOutput(conf) && !conf.has_input_conf() && !conf.has_variable_conf()) return {};
  std::vector<std::string> hints = ownStates(node);
  if (const auto it = view_.find(node.conf->name()); it != view_.end()) {
    const Slots slots = slotsOf(node);
    for (const auto &[bn, states] : it->second)
      if (const auto slot = slots.find(bn); slot != slots.end()) hints[slot->second] = states;
  }
  if (llvm::all_of(hints, [](const std::string &h) { return h.empty(); })) return {};
  SmallVector<Attribute> list;
  for (const std::string &h : hints) list.push_back(attribute(h));
  return ArrayAttr::get(context_, list);
}

void StateHints::checkNames(GraphNodes *graph) const {
  if (view_.empty()) return;
  std::unordered_map<std::string, size_t> nodes;
  std::vector<std::string> names;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    names.push_back(graph_.nodes[i].conf->name());
    nodes.emplace(names.back(), i);
  }
  const std::map<std::string, std::vector<std::pair<std::string, std::string>>> sorted(view_.begin(), view_.end());
  for (const auto &[op, states] : sorted) {
    const auto found = nodes.find(op);
    if (found == nodes.end()) {
      graph->warn(SourceRange(), "OPC0311",
                  "job_parallel_view_conf has states for op '" + op + "', which the graph does not have",
                  didYouMean(op, names));
      continue;
    }
    const Node &node = graph_.nodes[found->second];
    const Slots slots = slotsOf(node);
    std::vector<std::string> known;
    for (const auto &[name, slot] : slots) known.push_back(name);
    std::sort(known.begin(), known.end());
    for (const auto &[bn, text] : states)
      if (!slots.count(bn) && bn != kTick)
        graph->warn(static_cast<int>(found->second), "OPC0311",
                    "job_parallel_view_conf has the state " + text + " for '" + bn + "' of op " + op +
                        ", which has no such tensor",
                    "it has " + joined(known, ", "));
  }
}

} // namespace opc
