// A part of a graph.
// SPDX-License-Identifier: Apache-2.0
#include "GraphSelection.h"

#include "FactNodes.h"
#include "NamedValues.h"

#include <deque>

namespace opc::cli {

namespace {

/// The elements of `list` whose nodes are kept; nodes of a kind follow each other from `first` on.
template <class T> void keep(const std::vector<int64_t> &distance, size_t first, std::vector<T> *list) {
  std::vector<T> kept;
  for (size_t i = 0; i < list->size(); ++i)
    if (distance[first + i] >= 0) kept.push_back(std::move((*list)[i]));
  *list = std::move(kept);
}

} // namespace

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
  size_t first = 0;
  const size_t counts[] = {facts->inputs.size(), facts->variables.size(), facts->ops.size()};
  keep(distance, first, &facts->inputs);
  keep(distance, first += counts[0], &facts->variables);
  keep(distance, first += counts[1], &facts->ops);
  keep(distance, first += counts[2], &facts->outputs);
  return Status::ok();
}

} // namespace opc::cli
