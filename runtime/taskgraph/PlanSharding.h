// What a plan says of several ranks, checked: placements, how tensors are cut, boxing steps, the job's interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"
#include "GraphPlace.h"
#include "OpInstance.h"
#include "plan.pb.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::runtime {

/// How a tensor is cut, and what of it a rank holds.
struct TensorSharding {
  uint32_t placement = 0;
  NdSbp states;
  Shape logical;
  bool isHere = false; // the rank is of the placement
  int64_t position = 0;
  Box box; // what the rank holds, when it is
  /// Of a tensor with partial sums: the rank holds the value when such a tensor is cut from a whole one, and the others
  /// of its group hold zeros.
  bool holdsValue = true;
};

/// Ranks in range and distinct, dimensions that multiply to their number. OPC0715.
Result<std::vector<Placement>> readPlacements(const plan::Plan &plan, int64_t ranks);
/// A sharding of a tensor of element type `type` for `rank`. `what` names the tensor in errors. OPC0715.
Result<TensorSharding> readSharding(const plan::Sharding &sharding, DataType type,
                                    const std::vector<Placement> &placements, int64_t rank, const std::string &what);
/// The steps of a boxing task, one for each pair of tensors; element types are the tensors'. Checks that kind, mesh
/// dimension and states fit together, and that the rank takes part. OPC0716.
Result<std::vector<BoxingOp>> readBoxing(const plan::Boxing &boxing, const std::vector<DataType> &types,
                                         const std::vector<Placement> &placements, int64_t rank);
/// Whether the op has a signature that gives its tensors (inputs, then outputs) these states: on each mesh dimension
/// one of its 1-D signatures. `op` has been inferred on the whole tensors. OPC0715.
Status checkSignature(const OpInstance &op, const std::vector<TensorSharding> &shardings, const Placement &placement);

GraphPlace placeOf(const plan::Location &location);

/// A tensor at the border of the whole job.
struct JobPort {
  std::string name;
  user_op::TensorDesc desc; // of the whole tensor; of one micro-batch
  uint32_t placement = 0;
  NdSbp states;
  /// An input that is split into micro-batches, or an output that is joined from them: its register has as many slots.
  bool isBatched = false;
  uint32_t stride = 1;                                             // outputs: how often the task that makes it runs
  bool trainable = false, hasInitializer = false, hasSeed = false; // variables
  bool hasValue = false;                                           // its bytes are in the plan
  int64_t seed = 0;
  graph::InitializerConf initializer;
  GraphPlace where;
};
/// What the job as a whole takes and gives.
struct JobPlan {
  int64_t ranks = 1, microBatches = 1;
  std::vector<Placement> placements;
  std::vector<uint32_t> partOfRank; // empty: one rank and no parts
  std::vector<JobPort> inputs, outputs, variables;
  bool constantsTaken = false; // their bytes lie in the arena and no longer in the plan
};
/// The job of a plan. Errors: OPC0714 when it is made for another number of ranks than `ranks` (the message says how to
/// run it), OPC0715, OPC0811, OPC0812.
Result<JobPlan> readJob(const plan::Plan &plan, int64_t ranks);
/// The part of a rank; the plan itself when it has no parts. After readJob.
const plan::Plan &partOf(const plan::Plan &plan, const JobPlan &job, int64_t rank);

/// Whether ranks exchange what lies in the memory of devices. Of a plan that need not be whole.
bool boxesOnDevices(const plan::Plan &plan);

} // namespace opc::runtime
