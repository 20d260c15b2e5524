// The order of the ops of a graph file.
// SPDX-License-Identifier: Apache-2.0
#include "GraphNodes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <queue>

namespace opc {
namespace {

class NodeOrder {
public:
  explicit NodeOrder(GraphNodes *graph) : graph_(*graph), nodes_(graph->nodes) {}

  // Topological order, ties by name.
  std::vector<uint32_t> run() {
    const size_t n = nodes_.size();
    // The beginnings of the names lie side by side: comparing through pointers misses the cache at every step.
    struct Key {
      std::array<char, 16> head{};
      uint32_t op = 0;
    };
    std::vector<Key> keys(n);
    for (uint32_t i = 0; i < n; ++i) {
      const std::string &name = nodes_[i].conf->name();
      std::memcpy(keys[i].head.data(), name.data(), std::min(name.size(), keys[i].head.size()));
      keys[i].op = i;
    }
    std::sort(keys.begin(), keys.end(), [&](const Key &a, const Key &b) {
      const int order = std::memcmp(a.head.data(), b.head.data(), a.head.size());
      return order != 0 ? order < 0 : nodes_[a.op].conf->name() < nodes_[b.op].conf->name();
    });
    std::vector<uint32_t> byName(n), rank(n);
    for (uint32_t r = 0; r < n; ++r) byName[r] = keys[r].op;
    for (uint32_t r = 0; r < n; ++r) rank[byName[r]] = r;
    std::vector<uint32_t> pending(n, 0);
    std::vector<std::vector<uint32_t>> readers(n);
    for (uint32_t i = 0; i < n; ++i)
      for (const auto &in : nodes_[i].inputs) {
        readers[static_cast<size_t>(in.first)].push_back(i);
        ++pending[i];
      }
    for (uint32_t i = 0; i < n; ++i)
      for (int before : nodes_[i].controls) {
        readers[static_cast<size_t>(before)].push_back(i);
        ++pending[i];
      }
    std::vector<uint32_t> order;
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready; // by rank
    for (uint32_t i = 0; i < n; ++i)
      if (!pending[i]) ready.push(rank[i]);
    while (!ready.empty()) {
      const uint32_t i = byName[ready.top()];
      ready.pop();
      order.push_back(i);
      for (uint32_t r : readers[i])
        if (--pending[r] == 0) ready.push(rank[r]);
    }
    if (order.size() != n) reportCycle(pending);
    return order;
  }

private:
  void reportCycle(const std::vector<uint32_t> &pending) {
    const size_t n = nodes_.size();
    // Walk backwards through ops that still wait: the walk must close.
    uint32_t at = 0;
    while (!pending[at]) ++at;
    std::vector<uint32_t> path;
    std::vector<bool> seen(n, false);
    while (!seen[at]) {
      seen[at] = true;
      path.push_back(at);
      std::vector<int> waitsFor = nodes_[at].controls;
      for (const auto &in : nodes_[at].inputs) waitsFor.push_back(in.first);
      for (int before : waitsFor)
        if (pending[static_cast<size_t>(before)]) {
          at = static_cast<uint32_t>(before);
          break;
        }
    }
    std::string text = nodes_[at].conf->name();
    for (size_t k = path.size(); k-- > 0 && path[k] != at;) text += " -> " + nodes_[path[k]].conf->name();
    graph_.error(static_cast<int>(at), "OPC0108", "the ops form a cycle: " + text + " -> " + nodes_[at].conf->name(),
                 "a graph is static and acyclic: break the cycle with a variable");
  }

  GraphNodes &graph_;
  std::vector<Node> &nodes_;
};

} // namespace

std::vector<uint32_t> sortNodes(GraphNodes *graph) { return NodeOrder(graph).run(); }

} // namespace opc
