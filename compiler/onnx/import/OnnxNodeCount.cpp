// How many nodes an ONNX model has when the calls of its functions are written out.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxNodeCount.h"
#include "OnnxNodeOrder.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

namespace opc::onnx {
namespace {

class Count {
public:
  Count(const Model &model, size_t most) : most_(most) {
    for (const Function &f : model.functions()) functions_[{f.domain(), f.name(), f.overload()}] = &f;
  }

  size_t of(const Nodes &nodes, int depth) {
    size_t sum = 0;
    for (const Node &node : nodes) {
      sum += 1;
      if (const auto f = functions_.find({node.domain(), node.op_type(), node.overload()}); f != functions_.end())
        sum += ofCall(*f->second, depth + 1);
      for (const Attribute &a : node.attribute()) {
        if (a.has_g()) sum += of(a.g().node(), depth);
        for (const Graph &g : a.graphs()) sum += of(g.node(), depth);
      }
      if (sum > most_) return most_ + 1;
    }
    return sum;
  }

private:
  static constexpr int kMostDepth = 64; // whoever resolves them refuses what is deeper

  size_t ofCall(const Function &function, int depth) {
    if (depth > kMostDepth) return 0;
    const auto [known, isNew] = counts_.emplace(&function, 0); // one that calls itself is refused elsewhere
    if (!isNew) return known->second;
    const size_t count = of(function.node(), depth);
    return counts_[&function] = count;
  }

  size_t most_;
  std::map<std::tuple<std::string, std::string, std::string>, const Function *> functions_;
  std::unordered_map<const Function *, size_t> counts_;
};

} // namespace

size_t writtenNodes(const Model &model, size_t most) {
  if (model.functions().empty()) return 0; // then they are as many as the file has
  return Count(model, most).of(model.graph().node(), 0);
}

} // namespace opc::onnx
