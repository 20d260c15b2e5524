// The graph as a problem of the planner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CostTables.h"
#include "GraphStates.h"
#include "SignaturePlanner.h"
#include "StatePins.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

#include <deque>
#include <map>
#include <optional>
#include <string>

namespace opc {

/// The states of one kind of tensor, and where each is in the list.
struct KindStates {
  user_op::TensorDesc desc;
  uint32_t placement = 0;
  std::vector<NdSbp> states;
  std::map<std::string, uint32_t> index;
  std::optional<uint32_t> find(const NdSbp &s) const {
    auto it = index.find(toString(s));
    if (it == index.end()) return std::nullopt;
    return it->second;
  }
};

/// What the planner is asked, and which ops and tensors of the graph its indices mean.
struct SignatureProblem {
  std::vector<Placement> placements;
  planner::Problem problem;
  std::deque<KindStates> states;      // by tensor kind
  std::vector<mlir::Operation *> ops; // by op of the problem; null: a transfer
  std::vector<mlir::Value> values;    // by tensor
};

/// Every op with the signatures that it can have under what the user has decided, every tensor with its states. Errors:
/// OPC0310, OPC0311.
mlir::FailureOr<SignatureProblem> makeSignatureProblem(mlir::ModuleOp module, const MeshRequest &request);

} // namespace opc
