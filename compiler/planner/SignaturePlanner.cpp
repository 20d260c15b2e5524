// The planner: builds the pairwise model, solves it, and says how far it is proven.
// SPDX-License-Identifier: Apache-2.0
#include "SignaturePlanner.h"

#include "CostModel.h"
#include "ExactSolver.h"
#include "MemoryPrice.h"

namespace opc::planner {

Solution solve(const Problem &problem, const Options &options) {
  Solution solution;
  const Fault fault = check(problem, options);
  if (!fault.what.empty()) {
    solution.blamed = fault.op;
    solution.method = "bad problem: " + fault.what;
    return solution;
  }
  for (size_t o = 0; o < problem.ops.size(); ++o)
    if (problem.opKinds[problem.ops[o].kind].signatures.empty()) {
      solution.blamed = static_cast<int64_t>(o);
      return solution;
    }
  if (options.memoryLimit != 0) return solveWithinMemory(problem, options);
  return solveAtPrice(problem, options, 1, 0);
}

} // namespace opc::planner
