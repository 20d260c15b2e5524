// A graph for Model Explorer.
// SPDX-License-Identifier: Apache-2.0
#include "ModelExplorer.h"

#include "FactNodes.h"
#include "LargeNumbers.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

/// "blocks/0" of "blocks/0/fc".
std::string folderOf(const std::string &name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

Json attribute(const std::string &key, const std::string &value) { return {{"key", key}, {"value", value}}; }

/// What a node makes: its outputs' types, by number.
Json outputsOf(const GraphFacts &facts, const FactNode &node) {
  Json list = Json::array();
  const auto add = [&](const std::string &port, const std::string &type) {
    list.push_back({{"id", std::to_string(list.size())},
                    {"attrs", Json::array({attribute("tensor_shape", type), attribute("__tensor_tag", port)})}});
  };
  if (node.kind == NodeKind::kOp)
    for (const GraphTensor &t : facts.ops[node.index].outputs) add(t.name, tensorTypeText(t));
  else if (node.kind != NodeKind::kOutput)
    add("out", node.types);
  return list;
}

/// The number of a port among its maker's outputs.
std::string numberOf(const GraphFacts &facts, const FactNode &maker, const std::string &port) {
  if (maker.kind != NodeKind::kOp) return "0";
  const auto &outputs = facts.ops[maker.index].outputs;
  const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const GraphTensor &t) { return t.name == port; });
  return std::to_string(found - outputs.begin());
}

/// `side`: before the number of each node.
Json graphJson(const FactNodes &graph, const std::string &name, const std::string &side = "") {
  const GraphFacts &facts = *graph.facts;
  Json nodes = Json::array();
  for (size_t n = 0; n < graph.size(); ++n) {
    const FactNode &node = graph.nodes[n];
    Json edges = Json::array(), attributes = Json::array();
    for (const FactNode::Operand &o : node.operands) {
      if (o.producer < 0) continue;
      const FactNode &maker = graph.nodes[static_cast<size_t>(o.producer)];
      edges.push_back({{"sourceNodeId", concat(side, o.producer)},
                       {"sourceNodeOutputId", numberOf(facts, maker, o.port)},
                       {"targetNodeInputId", o.slot}});
    }
    attributes.push_back(attribute("name", node.name));
    if (node.kind == NodeKind::kOp)
      for (const auto &[key, value] : facts.ops[node.index].attrs)
        attributes.push_back(attribute(key, value.toString()));
    if (node.range.known()) attributes.push_back(attribute("source", concat(node.range.file, ":", node.range.line)));
    nodes.push_back({{"id", concat(side, n)},
                     {"label", node.kind == NodeKind::kOp ? node.type : node.name},
                     {"namespace", folderOf(node.name)},
                     {"incomingEdges", std::move(edges)},
                     {"attrs", std::move(attributes)},
                     {"outputsMetadata", outputsOf(facts, node)}});
  }
  return {{"id", name}, {"nodes", std::move(nodes)}};
}

} // namespace

Json modelExplorerJson(const GraphFacts &facts, const std::string &name) {
  return {{"label", name}, {"graphs", Json::array({graphJson(FactNodes(facts), name)})}};
}

Json modelExplorerCosts(const GraphFacts &facts, const std::string &name, double GraphOp::*cost, const char *title) {
  const FactNodes graph(facts);
  Json results = Json::object();
  for (size_t n = 0; n < graph.size(); ++n)
    if (graph.nodes[n].kind == NodeKind::kOp)
      results[std::to_string(n)] = {{"value", wholeJson(facts.ops[graph.nodes[n].index].*cost)}};
  const Json gradient = Json::array({{{"stop", 0}, {"bgColor", "#ffffff"}}, {{"stop", 1}, {"bgColor", "#e8590c"}}});
  return {{name, {{"name", title}, {"results", std::move(results)}, {"gradient", gradient}}}};
}

ModelExplorerPair modelExplorerPair(const FactNodes &a, const std::string &nameA, const FactNodes &b,
                                    const std::string &nameB, const GraphMatch &match) {
  ModelExplorerPair pair;
  // Graphs of a collection have names of their own.
  const std::string older = nameA == nameB ? nameA + " (older)" : nameA;
  pair.graphs = {{"label", nameA + " -> " + nameB},
                 {"graphs", Json::array({graphJson(a, older, "a"), graphJson(b, nameB, "b")})}};
  Json mapping = Json::object();
  for (size_t n = 0; n < a.size(); ++n)
    if (match.ofA[n] >= 0) mapping[concat("a", n)] = concat("b", match.ofA[n]);
  // Whatever is not in the mapping is taken for what has the same id on the other side: no node has, and layers of
  // nodes do. With disableMappingFallback every layer would be shown as new.
  pair.navigation = {{"type", "sync_navigation"}, {"mapping", std::move(mapping)}, {"showDiffHighlights", true}};
  return pair;
}

} // namespace opc::cli
