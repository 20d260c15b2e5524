// What the tensors of an ONNX model are called as variables.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxTensorNames.h"

#include "OnnxNodeOrder.h"
#include "PrintableText.h"

#include <unordered_set>
#include <vector>

namespace opc::onnx {
namespace {

struct Named {
  const Tensor *tensor;
  std::string name, path; // of the graph that it is in
};

/// The tensors of the graphs within the ops of a graph or function.
class Inner {
public:
  void visit(const Nodes &nodes, const std::string &path, int depth) {
    if (depth > kMostDepth) return; // whoever converts them says so
    for (int k = 0; k < nodes.size(); ++k)
      for (const Attribute &a : nodes[k].attribute()) {
        if (a.has_g()) graph(a.g(), inside(nodes[k], k, a, path), depth);
        for (int j = 0; j < a.graphs_size(); ++j)
          graph(a.graphs(j), inside(nodes[k], k, a, path) + std::to_string(j) + "/", depth);
      }
  }
  const std::vector<Named> &found() const { return found_; }

private:
  static constexpr int kMostDepth = 64;

  static std::string inside(const Node &node, int index, const Attribute &a, const std::string &path) {
    return path + (node.name().empty() ? node.op_type() + std::to_string(index) : node.name()) + "/" + a.name() + "/";
  }
  void graph(const Graph &graph, const std::string &path, int depth) {
    for (const Tensor &t : graph.initializer()) found_.push_back({&t, t.name(), path});
    for (const SparseTensor &t : graph.sparse_initializer()) found_.push_back({&t.values(), t.values().name(), path});
    for (const Node &n : graph.node())
      if (n.output_size() == 1)
        for (const Attribute &a : n.attribute()) {
          if (a.has_t()) found_.push_back({&a.t(), n.output(0), path});
          if (a.has_sparse_tensor()) found_.push_back({&a.sparse_tensor().values(), n.output(0), path});
        }
    visit(graph.node(), path, depth + 1);
  }

  std::vector<Named> found_;
};

} // namespace

TensorNames::TensorNames(const Model &model) {
  const auto add = [this](const Nodes &nodes, std::unordered_set<std::string> outer) {
    Inner inner;
    inner.visit(nodes, "", 0);
    if (inner.found().empty()) return;
    for (const Node &n : nodes)
      for (const std::string &name : n.output()) outer.insert(printableName(name));
    std::unordered_map<std::string, int> count;
    for (const Named &n : inner.found()) ++count[printableName(n.name)];
    std::unordered_set<std::string> taken = outer;
    for (const Named &n : inner.found())
      if (const std::string own = printableName(n.name); count[own] == 1 && !outer.count(own)) taken.insert(own);
    for (const Named &n : inner.found()) {
      const std::string own = printableName(n.name);
      if (count[own] == 1 && !outer.count(own)) continue;
      const std::string whole = n.path + n.name;
      std::string name = whole;
      for (int k = 2; !taken.insert(printableName(name)).second; ++k) name = whole + "_" + std::to_string(k);
      longer_[n.tensor] = name;
    }
  };
  std::unordered_set<std::string> outer;
  bool hasGraphs = false;
  for (const Node &n : model.graph().node())
    for (const Attribute &a : n.attribute()) hasGraphs |= a.has_g() || a.graphs_size() > 0;
  if (hasGraphs) {
    for (const Value &v : model.graph().input()) outer.insert(printableName(v.name()));
    for (const Tensor &t : model.graph().initializer()) outer.insert(printableName(t.name()));
    for (const SparseTensor &t : model.graph().sparse_initializer()) outer.insert(printableName(t.values().name()));
    add(model.graph().node(), std::move(outer));
  }
  for (const Function &f : model.functions()) add(f.node(), {});
}

} // namespace opc::onnx
