// Which ops of an ONNX model somebody can convert, and which nodes have others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxModelHead.h"
#include "OnnxNodeOrder.h"

#include "Registry.h"

#include <map>
#include <vector>

namespace opc::onnx {

class KnownOps {
public:
  /// All must outlive it.
  KnownOps(const ModelHead &head, const Registry &registry) : head_(head), registry_(registry) {}

  /// The op of that name for a node that no function and no converter has: a plugin's, or for nodes that opc has
  /// written a built-in one. Null where there is none.
  const user_op::OpDef *pluginOp(const Node &node) const;
  /// Whether there is a function, a converter or an op for it.
  bool has(const Node &node) const;
  /// The same of all nodes in the graphs of its attributes and in the function that it calls.
  bool hasAllWithin(const Node &node);

private:
  bool hasAll(const Nodes &nodes, int depth);
  bool hasAllWithin(const Node &node, int depth);

  const ModelHead &head_;
  const Registry &registry_;
  std::map<const Function *, bool> functions_;
};

/// The nodes of the model's own graph whose ops nobody knows, in the order in which conversion would come to them: but
/// for those that need what another one of them makes. Empty where there are none, and where only conversion tells: an
/// op that nobody knows in a function, or in a graph within an op, which is perhaps not taken.
std::vector<int> unknownNodes(const Nodes &nodes, const std::vector<int> &order, KnownOps *known);

} // namespace opc::onnx
