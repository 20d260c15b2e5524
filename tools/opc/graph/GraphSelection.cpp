// A part of a graph.
// SPDX-License-Identifier: Apache-2.0
#include "GraphSelection.h"

#include "FactNodes.h"
#include "NamedValues.h"
#include "Option.h"

#include <algorithm>
#include <deque>
#include <optional>

namespace opc::cli {

namespace {

/// The elements of `list` whose nodes are kept; nodes of a kind follow each other from `first` on.
template <class T> void keep(const std::vector<int64_t> &distance, size_t first, std::vector<T> *list) {
  std::vector<T> kept;
  for (size_t i = 0; i < list->size(); ++i)
    if (distance[first + i] >= 0) kept.push_back(std::move((*list)[i]));
  *list = std::move(kept);
}

/// Keeps the nodes of the graph with a distance from 0.
void keepNodes(const std::vector<int64_t> &distance, GraphFacts *facts) {
  size_t first = 0;
  const size_t counts[] = {facts->inputs.size(), facts->variables.size(), facts->ops.size()};
  keep(distance, first, &facts->inputs);
  keep(distance, first += counts[0], &facts->variables);
  keep(distance, first += counts[1], &facts->ops);
  keep(distance, first += counts[2], &facts->outputs);
}

/// Which nodes data reaches from those of that name, or, backward, from which it reaches them.
std::vector<bool> reached(const FactNodes &graph, const std::string &name, bool backward) {
  std::vector<bool> is(graph.size());
  std::deque<size_t> open;
  const auto reach = [&](size_t n) {
    if (!is[n]) open.push_back(n);
    is[n] = true;
  };
  for (size_t n = 0; n < graph.size(); ++n)
    if (graph.nodes[n].name == name) reach(n);
  for (; !open.empty(); open.pop_front()) {
    const FactNode &node = graph.nodes[open.front()];
    if (!backward)
      for (const FactNode::Reader &r : node.readers) reach(r.node);
    else
      for (const FactNode::Operand &o : node.operands)
        if (o.producer >= 0) reach(static_cast<size_t>(o.producer));
  }
  return is;
}

} // namespace

Status selectPaths(const std::string &fromTo, GraphFacts *facts) {
  const FactNodes graph(*facts);
  std::vector<std::string> names;
  for (const FactNode &node : graph.nodes) names.push_back(node.name);
  const auto isName = [&](const std::string &name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  // Names may have dots: the first place that leaves two names, or else two texts.
  std::optional<size_t> first, good;
  for (size_t at = 0; at < fromTo.size() && !good; ++at) {
    if (fromTo.compare(at, 2, "..") != 0) continue;
    if (!first) first = at;
    if (isName(fromTo.substr(0, at)) && isName(fromTo.substr(at + 2))) good = at;
  }
  if (!first) return usageError("--paths takes A..B, not '" + fromTo + "'");
  const size_t dots = good.value_or(*first);
  const std::string from = fromTo.substr(0, dots), to = fromTo.substr(dots + 2);
  for (const std::string &name : {from, to})
    if (!isName(name)) return noSuchName("op", name, names, "--paths " + fromTo);
  const std::vector<bool> after = reached(graph, from, false), before = reached(graph, to, true);
  std::vector<int64_t> distance(graph.size(), -1);
  bool isAny = false;
  for (size_t n = 0; n < graph.size(); ++n)
    if (after[n] && before[n]) distance[n] = 0, isAny = true;
  if (!isAny)
    return Status(StatusCode::kUsage, "OPC0005", "--paths " + fromTo + ": no data goes from " + from + " to " + to)
        .withHelp("opc show --around " + from + " shows where it goes");
  keepNodes(distance, facts);
  return Status::ok();
}

Status selectAround(const std::string &name, int64_t depth, const std::string &flag, GraphFacts *facts) {
  const FactNodes graph(*facts);
  std::vector<int64_t> distance(graph.size(), -1);
  std::deque<size_t> open;
  std::vector<std::string> names;
  for (size_t n = 0; n < graph.size(); ++n) {
    names.push_back(graph.nodes[n].name);
    if (graph.nodes[n].name != name) continue;
    distance[n] = 0;
    open.push_back(n);
  }
  if (open.empty()) return noSuchName("op", name, names, flag);
  for (; !open.empty(); open.pop_front()) {
    const size_t n = open.front();
    if (distance[n] == depth) continue;
    const auto reach = [&](size_t other) {
      if (distance[other] >= 0) return;
      distance[other] = distance[n] + 1;
      open.push_back(other);
    };
    for (const FactNode::Operand &o : graph.nodes[n].operands)
      if (o.producer >= 0) reach(static_cast<size_t>(o.producer));
    for (const FactNode::Reader &r : graph.nodes[n].readers) reach(r.node);
  }
  keepNodes(distance, facts);
  return Status::ok();
}

} // namespace opc::cli
