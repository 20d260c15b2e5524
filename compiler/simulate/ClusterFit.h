// From measurements to a cluster description: the rates with which the simulator's formulas come nearest to the times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Cluster.h"

#include <string>
#include <vector>

namespace opc::simulate {

struct OpSample {
  std::string op;
  DataType type = kFloat;
  OpCost cost;
  double seconds = 0;
};
struct StepSample {
  BoxingOp op; // a collective on a mesh of one dimension
  double seconds = 0;
};
struct MachineSamples {
  std::string name;
  int64_t ranks = 1;        // that worked at once
  double cores = 0;         // of the machine; 0: each rank has its own
  uint64_t memoryBytes = 0; // of a rank
  double copyBandwidth = 0, taskOverhead = 0;
  std::vector<OpSample> products; // matrix products in f32
  std::vector<OpSample> ops;
  std::vector<StepSample> steps;
};

/// A cluster of one host, open to any number of ranks. The sum of squared relative errors is least: over products for
/// the rate and the half width of the efficiency, for each op type for its overhead and factor, for each kind of step
/// for its latency and bandwidth; none of them below 0. Errors: OPC0748 without products.
Result<ClusterDescription> fitCluster(const MachineSamples &samples);

} // namespace opc::simulate
