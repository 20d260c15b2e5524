// The ops of a graph as ONNX nodes, in one operator set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxEmission.h"
#include "OnnxExport.h"

#include <map>
#include <string>
#include <vector>

namespace opc::onnx_export {

constexpr const char *kContributed = "com.microsoft"; // ONNX Runtime's domain

class OpsExport final : public InnerGraphs {
public:
  OpsExport(const Registry &registry, const ExportRequest &request, int64_t opset)
      : registry_(registry), request_(request), opset_(opset) {}

  /// Adds the op's nodes. `wires` has its inputs and what its outputs are called; `next`, by variable, gets what the op
  /// writes.
  void write(const GraphOp &op, Nodes &nodes, std::map<std::string, Wire> *wires,
             std::map<std::string, std::string> *next);
  std::vector<Wire> write(const GraphOp &op, const std::string &text, const std::vector<Wire> &inputs,
                          Nodes &nodes) override;

  /// Ops without a form; the operator set that the others need.
  const std::vector<UnexportedOp> &refused() const { return refused_; }
  int64_t needed() const { return needed_; }
  /// How many nodes are ops that ONNX has no form for, by op.
  const std::map<std::string, size_t> &ownNodes() const { return ownNodes_; }

private:
  void writeProduct(const GraphOp &op, const BlockProduct &p, Nodes &nodes, std::map<std::string, Wire> *wires);
  void refuse(const GraphOp &op, const std::string &reason);

  const Registry &registry_;
  const ExportRequest &request_;
  const int64_t opset_;
  std::vector<const GraphOp *> around_; // ops whose graphs are being written, the outermost first
  std::vector<UnexportedOp> refused_;
  std::map<std::string, size_t> ownNodes_;
  int64_t needed_ = 0;
};

} // namespace opc::onnx_export
