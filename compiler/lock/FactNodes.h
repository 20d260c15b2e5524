// A graph's facts as nodes and edges: inputs, variables, ops and outputs alike, with what reads them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace opc {

enum class NodeKind : uint8_t { kInput, kVariable, kOp, kOutput };
/// "input", "variable", "op", "output".
const char *nodeKindName(NodeKind kind);

struct FactNode {
  struct Operand {
    std::string slot;      // "a_0"; of an output "in"
    int32_t producer = -1; // a node; -1 for a tensor that no node makes
    std::string port;      // of the producer: "out_0"; empty for an input or variable
    std::string tensor;    // the tensor's name
  };
  struct Reader {
    uint32_t node = 0, operand = 0;
  };
  NodeKind kind = NodeKind::kOp;
  uint32_t index = 0; // in the list of the facts
  std::string name, type;
  std::string content; // what is its own besides type and edges: attributes, role, device, initializer
  std::string types;   // of what it makes
  std::string role = "forward";
  int32_t gradientOf = -1; // of a backward op: the node of the op whose gradient it computes
  SourceRange range;
  std::vector<Operand> operands; // by slot
  std::vector<Reader> readers;
};

/// The nodes in the order of the facts, makers before readers: inputs, variables, ops, outputs. The facts must outlive
/// it.
struct FactNodes {
  explicit FactNodes(const GraphFacts &facts);

  const GraphFacts *facts;
  std::vector<FactNode> nodes;
  size_t size() const { return nodes.size(); }

private:
  void addTensors(NodeKind kind, const std::vector<GraphTensor> &tensors);
  void addOps();
  void link();
};

/// The operand of that slot, or nullptr.
const FactNode::Operand *operandAt(const FactNode &node, const std::string &slot);
/// "f32[2,3]"; a size that is not known is "?".
std::string tensorTypeText(const GraphTensor &tensor);

} // namespace opc
