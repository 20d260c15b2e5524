// States that a graph file asks for: on the names of what ops read, and in job_parallel_view_conf.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphNodes.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace opc {

/// OneFlow v0.3's names may carry hints, "op/out_0:S0" (an SBP hint) and "|n" (no boxing).
std::string withoutHints(std::string name);

class StateHints {
public:
  StateHints(mlir::MLIRContext *context, const GraphNodes &graph);
  /// The value of `opc.hints` for an op; null when nothing is asked for.
  mlir::ArrayAttr of(const Node &node) const;

private:
  mlir::Attribute attribute(const std::string &states) const;
  std::vector<std::string> ofVariable(const graph::VariableOpConf &conf) const;
  std::vector<std::string> ofUserOp(const Node &node) const;

  mlir::MLIRContext *context_;
  const GraphNodes &graph_;
  std::unordered_map<std::string, std::vector<std::pair<std::string, std::string>>> view_; // op -> (bn, states)
};

} // namespace opc
