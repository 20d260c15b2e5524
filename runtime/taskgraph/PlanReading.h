// What the readers of a plan share: errors, pieces of tensors, tasks. Only the sources of this folder include it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanModel.h"
#include "TextParts.h"

#include <string>
#include <utility>
#include <vector>

namespace opc::runtime {

/// "invalid plan: " and the parts, texts and integers, one after the other.
template <class... Parts> Status bad(const char *id, const Parts &...parts) {
  return Status(StatusCode::kInvalidGraph, id, concat("invalid plan: ", parts...)).withHelp("compile the graph again");
}
inline std::string quoted(const std::string &s) { return "'" + s + "'"; }

/// For each task its stream and its position there.
using TaskPlaces = std::vector<std::pair<uint32_t, uint32_t>>;

/// Reads a sharding and checks that the tensor is this rank's piece.
Result<TensorSharding> readPiece(const plan::Sharding &sharding, uint32_t tensor, const std::string &what,
                                 const PlanModel &model, const JobPlan &job);

/// Reads the tasks into a model that has everything else. `native` may be null.
Status readTasks(const plan::Plan &plan, const TaskPlaces &places, const Registry &registry, const JobPlan &job,
                 const std::shared_ptr<NativeImages> &native, PlanModel *model);

} // namespace opc::runtime
