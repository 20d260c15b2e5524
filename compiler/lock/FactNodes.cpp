// The facts of a graph as nodes and edges.
// SPDX-License-Identifier: Apache-2.0
#include "FactNodes.h"
#include "AttrChange.h"
#include "LockRecords.h"

#include <algorithm>
#include <unordered_map>

namespace opc {

const char *nodeKindName(NodeKind kind) {
  switch (kind) {
  case NodeKind::kInput: return "input";
  case NodeKind::kVariable: return "variable";
  case NodeKind::kOutput: return "output";
  case NodeKind::kOp: break;
  }
  return "op";
}

std::string tensorTypeText(const GraphTensor &tensor) {
  std::string text = tensor.dtype == kInvalidDataType ? "?" : dataTypeName(tensor.dtype);
  text += '[';
  for (int64_t i = 0; i < tensor.shape.NumAxes(); ++i) {
    if (i) text += ',';
    text += tensor.shape.At(i) < 0 ? "?" : std::to_string(tensor.shape.At(i));
  }
  return text + ']';
}

const FactNode::Operand *operandAt(const FactNode &node, const std::string &slot) {
  const auto found = std::lower_bound(node.operands.begin(), node.operands.end(), slot,
                                      [](const FactNode::Operand &o, const std::string &s) { return o.slot < s; });
  return found != node.operands.end() && found->slot == slot ? &*found : nullptr;
}

FactNodes::FactNodes(const GraphFacts &f) : facts(&f) {
  nodes.reserve(f.inputs.size() + f.variables.size() + f.ops.size() + f.outputs.size());
  addTensors(NodeKind::kInput, f.inputs);
  addTensors(NodeKind::kVariable, f.variables);
  addOps();
  addTensors(NodeKind::kOutput, f.outputs);
  link();
}

void FactNodes::addTensors(NodeKind kind, const std::vector<GraphTensor> &tensors) {
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const GraphTensor &t = tensors[i];
    FactNode node;
    node.kind = kind;
    node.index = i;
    node.name = t.name;
    node.type = nodeKindName(kind);
    node.types = tensorTypeText(t);
    node.range = t.range;
    if (kind == NodeKind::kVariable) node.content = lock::initialText(t) + (t.trainable ? "" : " frozen");
    if (kind == NodeKind::kOutput) node.operands.push_back({"in", -1, "", t.tensor});
    nodes.push_back(std::move(node));
  }
}

void FactNodes::addOps() {
  for (uint32_t i = 0; i < facts->ops.size(); ++i) {
    const GraphOp &op = facts->ops[i];
    FactNode node;
    node.index = i;
    node.name = op.name;
    node.type = op.type;
    node.range = op.range;
    for (const auto &[name, value] : op.attrs)
      node.content += name + ":" + attrTypeName(value.type()) + "=" + attributeText(value) + "\n";
    node.role = op.role;
    node.content += op.role + "\n" + op.device;
    for (const GraphTensor &t : op.outputs) node.types += tensorTypeText(t) + " ";
    for (const auto &[slot, tensor] : op.inputs) node.operands.push_back({slot.text(), -1, "", tensor});
    std::sort(node.operands.begin(), node.operands.end(), [](const auto &a, const auto &b) { return a.slot < b.slot; });
    nodes.push_back(std::move(node));
  }
}

void FactNodes::link() {
  struct Maker {
    uint32_t node;
    const std::string *port;
  };
  static const std::string kOnly;
  std::unordered_map<std::string, Maker> makers; // looked up, never walked
  std::unordered_map<std::string, uint32_t> ops;
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    const FactNode &node = nodes[n];
    if (node.kind == NodeKind::kInput) makers.try_emplace(facts->inputs[node.index].tensor, Maker{n, &kOnly});
    if (node.kind == NodeKind::kVariable) makers.try_emplace(facts->variables[node.index].tensor, Maker{n, &kOnly});
    if (node.kind != NodeKind::kOp) continue;
    ops.try_emplace(node.name, n);
    for (const GraphTensor &t : facts->ops[node.index].outputs) makers.try_emplace(t.tensor, Maker{n, &t.name});
  }
  for (FactNode &node : nodes)
    if (const auto of = node.kind == NodeKind::kOp ? ops.find(facts->ops[node.index].gradientOf) : ops.end();
        of != ops.end())
      node.gradientOf = static_cast<int32_t>(of->second);
  for (uint32_t n = 0; n < nodes.size(); ++n)
    for (uint32_t o = 0; o < nodes[n].operands.size(); ++o) {
      FactNode::Operand &operand = nodes[n].operands[o];
      const auto maker = makers.find(operand.tensor);
      if (maker == makers.end()) continue;
      operand.producer = static_cast<int32_t>(maker->second.node);
      operand.port = *maker->second.port;
      nodes[maker->second.node].readers.push_back({n, o});
    }
}

} // namespace opc
