// Who makes what the ops of a graph file read, and who must run first.
// SPDX-License-Identifier: Apache-2.0
#include "NearestNames.h"
#include "StateHints.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace opc {
namespace {

using graph::OperatorConf;

class NodeLinks {
public:
  explicit NodeLinks(GraphNodes *graph) : graph_(*graph), nodes_(graph->nodes) {}

  void run() {
    graph_.producers.reserve(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t k = 0; k < nodes_[i].makes.size(); ++k) {
        auto [it, fresh] =
            graph_.producers.emplace(nodes_[i].makes[k], std::make_pair(static_cast<int>(i), static_cast<int>(k)));
        if (!fresh)
          graph_.error(static_cast<int>(i), "OPC0106",
                       "tensor '" + nodes_[i].makes[k] + "' is made twice; also by op " +
                           nodes_[static_cast<size_t>(it->second.first)].conf->name());
      }
    linkControl();
    // An op that failed by itself makes nothing: readers of its tensors are not to blame.
    std::unordered_set<std::string_view> failed, unmade; // ops, and tensors that are called otherwise than their op
    for (const Node &n : nodes_) {
      if (n.valid || !n.conf) continue;
      failed.insert(n.conf->name());
      for (const auto &out : n.conf->user_conf().output())
        for (const std::string &tensor : out.value().s()) unmade.insert(tensor);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].inputs.reserve(nodes_[i].reads.size());
      for (size_t k = 0; k < nodes_[i].reads.size(); ++k) {
        const std::string &name = nodes_[i].reads[k];
        auto it = graph_.producers.find(name);
        if (it == graph_.producers.end()) it = graph_.producers.find(withoutHints(name));
        if (it != graph_.producers.end()) {
          nodes_[i].inputs.push_back(it->second);
          continue;
        }
        if (unmade.count(name) || failed.count(std::string_view(name).substr(0, name.find('/')))) continue;
        unknownTensor(static_cast<int>(i), k, name);
      }
    }
  }

private:
  SourceRange readRange(int op, size_t flat) const {
    const OperatorConf &conf = *nodes_[static_cast<size_t>(op)].conf;
    if (conf.op_type_case() != OperatorConf::kUserConf) return graph_.file.opRanges[static_cast<size_t>(op)];
    const std::string &wanted = nodes_[static_cast<size_t>(op)].reads[flat];
    for (int e = 0; e < conf.user_conf().input_size(); ++e)
      for (int t = 0; t < conf.user_conf().input(e).value().s_size(); ++t)
        if (conf.user_conf().input(e).value().s(t) == wanted) return graph_.file.inputRange(op, e, t);
    return graph_.file.opRanges[static_cast<size_t>(op)];
  }

  /// What ctrl_in_op_name names must exist. Only between ops that run does it order anything.
  void linkControl() {
    std::unordered_map<std::string_view, int> byName;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const OperatorConf &conf = *nodes_[i].conf;
      if (conf.ctrl_in_op_name_size() == 0) continue;
      if (byName.empty())
        for (size_t k = 0; k < nodes_.size(); ++k) byName.emplace(nodes_[k].conf->name(), static_cast<int>(k));
      for (const std::string &name : conf.ctrl_in_op_name()) {
        auto it = byName.find(name);
        if (it == byName.end()) {
          std::vector<std::string> all;
          if (graph_.explains())
            for (const Node &n : nodes_) all.push_back(n.conf->name());
          const auto near =
              nodes_.size() <= 20000 && graph_.explains() ? nearestNames(name, all, 1) : std::vector<std::string>();
          graph_.error(static_cast<int>(i), "OPC0113", "ctrl_in_op_name names '" + name + "', and no op is called that",
                       near.empty() ? "" : "did you mean '" + near[0] + "'?");
        } else if (nodes_[i].def && nodes_[static_cast<size_t>(it->second)].def) {
          nodes_[i].controls.push_back(it->second);
          nodes_[static_cast<size_t>(it->second)].isOrdered = true;
        }
      }
    }
  }

  void unknownTensor(int op, size_t flat, const std::string &name) {
    const std::string help = graph_.explains() ? helpFor(op, name) : "";
    graph_.error(readRange(op, flat), "OPC0107", "no op makes the tensor '" + name + "'", help, op);
  }

  std::string helpFor(int op, const std::string &name) const {
    // The op may exist and only the blob name be wrong: that is by far the commonest slip.
    const std::string opName = name.substr(0, name.find('/'));
    for (const Node &n : nodes_)
      if (n.valid && n.conf->name() == opName)
        return n.makes.empty() ? "op " + opName + " makes no tensor" : "op " + opName + " makes '" + n.makes[0] + "'";
    if (nodes_.size() > 20000) return "";
    std::vector<std::string> all;
    for (const auto &p : graph_.producers)
      if (p.second.first != op) all.emplace_back(p.first); // what the op makes itself is not what it reads
    std::sort(all.begin(), all.end());
    const auto near = nearestNames(name, all, 1);
    return near.empty() ? "" : "did you mean '" + near[0] + "'?";
  }

  GraphNodes &graph_;
  std::vector<Node> &nodes_;
};

} // namespace

void linkNodes(GraphNodes *graph) { NodeLinks(graph).run(); }

} // namespace opc
