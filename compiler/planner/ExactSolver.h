// The least cost of a graph of variables, with a bound that says how far it is proven.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PairGraph.h"
#include "SignaturePlanner.h"

namespace opc::planner {

struct GraphAnswer {
  bool feasible = true;
  uint32_t blamed = 0; // infeasible: a variable that has no value
  std::vector<uint32_t> values;
  Cost cost = kNever, bound = 0;
  std::string method;
  uint64_t eliminated = 0, distinct = 0, sweeps = 0;
};
GraphAnswer minimise(PairGraph graph, CostTables *tables, const Options &options);

} // namespace opc::planner
