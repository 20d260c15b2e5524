// States that a graph file asks for: on the names of what ops read, in nd_sbp, and in job_parallel_view_conf.
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
  /// Warns (OPC0311) of ops and tensors that job_parallel_view_conf names and the graph does not have.
  void checkNames(GraphNodes *graph) const;

private:
  /// Where the tensors of an op stand in its list, by what job_parallel_view_conf calls them.
  using Slots = std::unordered_map<std::string, size_t>;
  static Slots slotsOf(const Node &node);
  mlir::Attribute attribute(const std::string &states) const;
  /// What the node itself says: a list with an entry for each tensor that it reads, then for each that it makes.
  std::vector<std::string> ownStates(const Node &node) const;
  /// "S0" of a name with that hint, "" of others.
  std::string hintOf(const std::string &name) const;

  mlir::MLIRContext *context_;
  const GraphNodes &graph_;
  std::unordered_map<std::string, std::vector<std::pair<std::string, std::string>>> view_; // op -> (bn, states)
};

} // namespace opc
