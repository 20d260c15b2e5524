// States that a graph file asks for: on the names of what ops read, and in job_parallel_view_conf.
// SPDX-License-Identifier: Apache-2.0
#include "StateHints.h"

#include "NdSbp.h"
#include "OpcDialect.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

std::string stateText(const graph::SbpParallel &s) {
  if (s.has_split_parallel()) return "S(" + std::to_string(s.split_parallel().axis()) + ")";
  return s.has_partial_sum_parallel() ? "P" : s.has_broadcast_parallel() ? "B" : "";
}

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
    for (const auto &e : op.value().bn_in_op2nd_sbp()) {
      std::string text;
      for (const auto &s : e.value().sbp_parallel()) text += (text.empty() ? "" : ", ") + stateText(s);
      if (!text.empty()) view_[op.key()].push_back({e.key(), text});
    }
}

Attribute StateHints::attribute(const std::string &states) const {
  if (states.empty()) return UnitAttr::get(context_);
  if (const auto known = parseNdSbp(states)) return ir::StateAttr::get(context_, *known);
  return StringAttr::get(context_, states); // complained of when states are assigned
}

std::vector<std::string> StateHints::ofVariable(const graph::VariableOpConf &conf) const {
  std::string states;
  for (const std::string &s : conf.nd_sbp()) states += (states.empty() ? "" : ", ") + s;
  if (conf.split_axis().has_value() && conf.split_axis().value() >= 0)
    states = "S(" + std::to_string(conf.split_axis().value()) + ")";
  return {states};
}

std::vector<std::string> StateHints::ofUserOp(const Node &node) const {
  std::vector<std::string> hints(node.reads.size() + node.makes.size());
  for (size_t k = 0; k < node.reads.size(); ++k) {
    const std::string &name = node.reads[k];
    if (name.find(':') == name.npos || graph_.producers.count(name)) continue;
    const std::string rest = withoutHints(name);
    if (rest.size() + 1 >= name.size() || name[rest.size()] != ':') continue;
    hints[k] = name.substr(rest.size() + 1);
    if (const size_t bar = hints[k].find('|'); bar != std::string::npos) hints[k].resize(bar);
  }
  auto it = view_.find(node.conf->name());
  if (it == view_.end()) return hints;
  std::unordered_map<std::string, size_t> slots;
  size_t flat = 0;
  for (const auto *list : {&node.user.inputs, &node.user.outputs})
    for (const auto &b : *list)
      for (size_t t = 0; t < b.tensors.size(); ++t) slots.emplace(b.name + "_" + std::to_string(t), flat++);
  for (const auto &[bn, states] : it->second)
    if (auto slot = slots.find(bn); slot != slots.end()) hints[slot->second] = states;
  return hints;
}

ArrayAttr StateHints::of(const Node &node) const {
  const bool isVariable = node.conf->has_variable_conf();
  if (!isVariable && !node.def) return {};
  const std::vector<std::string> hints = isVariable ? ofVariable(node.conf->variable_conf()) : ofUserOp(node);
  if (llvm::all_of(hints, [](const std::string &h) { return h.empty(); })) return {};
  SmallVector<Attribute> list;
  for (const std::string &h : hints) list.push_back(attribute(h));
  return ArrayAttr::get(context_, list);
}

} // namespace opc
