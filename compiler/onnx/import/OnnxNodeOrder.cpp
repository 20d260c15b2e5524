// The nodes of an ONNX graph in an order in which they can be computed.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxNodeOrder.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace opc::onnx {
namespace {

void freeNames(const Graph &graph, std::set<std::string> *names) {
  std::set<std::string> own, read;
  for (const Value &v : graph.input()) own.insert(v.name());
  for (const Tensor &t : graph.initializer()) own.insert(t.name());
  for (const SparseTensor &t : graph.sparse_initializer()) own.insert(t.values().name());
  for (const Node &n : graph.node()) {
    read.merge(readsOf(n));
    own.insert(n.output().begin(), n.output().end());
  }
  for (const Value &v : graph.output()) read.insert(v.name());
  for (const std::string &name : read)
    if (!own.count(name)) names->insert(name);
}

} // namespace

std::set<std::string> readsOf(const Node &node) {
  std::set<std::string> names(node.input().begin(), node.input().end());
  for (const Attribute &a : node.attribute()) {
    if (a.has_g()) freeNames(a.g(), &names);
    for (const Graph &g : a.graphs()) freeNames(g, &names);
  }
  names.erase("");
  return names;
}

std::optional<std::pair<int, int>> makerOf(const Nodes &nodes, const std::string &name) {
  for (int k = 0; k < nodes.size(); ++k)
    for (int output = 0; output < nodes[k].output_size(); ++output)
      if (nodes[k].output(output) == name) return std::make_pair(k, output);
  return std::nullopt;
}

std::vector<NameFault> nameFaults(const Nodes &nodes, const std::function<bool(const std::string &name)> &isGiven) {
  std::vector<NameFault> faults;
  std::unordered_set<std::string_view> made;
  for (int k = 0; k < nodes.size(); ++k)
    for (const std::string &name : nodes[k].output())
      if (!name.empty() && (!made.insert(name).second || isGiven(name))) faults.push_back({k, name, true});
  for (int k = 0; k < nodes.size(); ++k)
    for (const std::string &name : readsOf(nodes[k]))
      if (!made.count(name) && !isGiven(name)) faults.push_back({k, name, false});
  std::stable_sort(faults.begin(), faults.end(), [](const auto &a, const auto &b) { return a.node < b.node; });
  return faults;
}

std::vector<int> orderOf(const Nodes &nodes, std::vector<int> *cycle) {
  std::unordered_map<std::string, int> makers;
  for (int k = 0; k < nodes.size(); ++k)
    for (const std::string &name : nodes[k].output())
      if (!name.empty()) makers.emplace(name, k);
  enum : char { kNew, kOpen, kDone };
  std::vector<char> state(static_cast<size_t>(nodes.size()), kNew);
  std::vector<int> order;
  struct Frame {
    int node;
    std::vector<int> before;
    size_t next = 0;
  };
  const auto frame = [&](int node) {
    Frame f{node, {}};
    for (const std::string &name : readsOf(nodes[node]))
      if (const auto maker = makers.find(name); maker != makers.end()) f.before.push_back(maker->second);
    std::sort(f.before.begin(), f.before.end());
    state[static_cast<size_t>(node)] = kOpen;
    return f;
  };
  for (int root = 0; root < nodes.size(); ++root) {
    if (state[static_cast<size_t>(root)] != kNew) continue;
    std::vector<Frame> open;
    open.push_back(frame(root));
    while (!open.empty()) {
      Frame &top = open.back();
      if (top.next == top.before.size()) {
        state[static_cast<size_t>(top.node)] = kDone;
        order.push_back(top.node);
        open.pop_back();
        continue;
      }
      const int before = top.before[top.next++];
      const char seen = state[static_cast<size_t>(before)];
      if (seen == kNew) {
        open.push_back(frame(before));
      } else if (seen == kOpen) {
        for (size_t k = open.size(); k-- > 0;) {
          cycle->push_back(open[k].node);
          if (open[k].node == before) break;
        }
        std::reverse(cycle->begin(), cycle->end());
        return {};
      }
    }
  }
  return order;
}

} // namespace opc::onnx
