// What a session cannot be asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanSharding.h"
#include "Session.h"

namespace opc::runtime {

/// OPC0001 for a number that is out of its range.
Status checkOptions(const SessionOptions &options);
/// Whether the memory that the plan says is there, for the ranks `mine` (OPC0821). A GPU's is known when its arena is
/// taken.
Status checkFits(const plan::Plan &plan, const JobPlan &job, const std::vector<int64_t> &mine, int threads,
                 const SessionOptions &options);

/// The last step that is counted to, micro-batches one by one: a run that fails moves counters on by as much.
constexpr int64_t kMostSteps = int64_t{1} << 60;
/// "steps are counted from 0 to ...".
std::string stepsHelp(int64_t microBatches);
/// OPC0616 where `steps` more cannot be counted. `position`: TaskGraph::position().
Status checkSteps(int64_t position, int64_t steps, int64_t microBatches);

} // namespace opc::runtime
