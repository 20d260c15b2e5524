// Outputs of which only a run knows how much there is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"
#include "PlanSharding.h"

#include <optional>
#include <vector>

namespace opc::runtime {

/// An output has along `axis` as much as output `count` says.
struct OutputCut {
  size_t count = 0;
  int64_t axis = 0;
};
/// For each output of the job: those that the op "bounded" makes, whose count is an output, too. What lies between them
/// moves pieces between ranks and nothing else. OPC0210 when they would have to be joined from micro-batches.
Result<std::vector<std::optional<OutputCut>>> outputCuts(const plan::Plan &plan, const JobPlan &job);

/// The part of `whole`, output `name`, that there is. OPC0613 when there cannot be as much.
Result<HostTensor> cutTo(HostTensor whole, const HostTensor &count, int64_t axis, const std::string &name);

} // namespace opc::runtime
