// Solving at a price for memory, and finding the price that a limit asks for.
#include "MemoryPrice.h"

#include "CostModel.h"
#include "ExactSolver.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::planner {

Solution solveAtPrice(const Problem &problem, const Options &options, double secondsWeight, double price) {
  CostTables tables;
  CostModel model(problem, options, &tables);
  Solution solution;
  PairGraph graph = model.graph(secondsWeight, price);
  solution.variables = graph.unary.size();
  const GraphAnswer answer = minimise(std::move(graph), &tables, options);
  solution.method = answer.method;
  solution.eliminated = answer.eliminated;
  solution.distinct = answer.distinct;
  solution.sweeps = answer.sweeps;
  if (!answer.feasible) {
    solution.blamed = model.opOf(answer.blamed);
    return solution;
  }
  if (answer.values.size() != solution.variables) return solution; // no assignment was found
  solution.feasible = true;
  model.decode(answer.values, &solution);
  solution.bytes = heldBytes(problem, solution);
  solution.cost = costWithCopies(problem, solution.signature, solution.copies);
  solution.gap = static_cast<double>(answer.cost - answer.bound) * model.unit();
  solution.lowerBound = secondsWeight * solution.cost + price * static_cast<double>(solution.bytes) - solution.gap;
  return solution;
}

Solution solveWithinMemory(const Problem &problem, const Options &options) {
  const double limit = static_cast<double>(options.memoryLimit);
  Solution over = solveAtPrice(problem, options, 1, 0);
  if (!over.feasible || over.bytes <= options.memoryLimit) return over;
  double bound = over.lowerBound;
  Solution least = solveAtPrice(problem, options, 0, 1); // the least memory, whatever it costs
  if (!least.feasible || least.bytes > options.memoryLimit) {
    Solution failed;
    failed.blamed = -1;
    failed.bytes = least.feasible ? least.bytes : over.bytes;
    failed.method = "memory";
    failed.variables = over.variables;
    return failed;
  }
  // The dual is piecewise linear and concave in the price. Two solutions, one over and one within the limit, cost the
  // same at one price; a better one there replaces one of them, or that price is the best.
  Solution within = least;
  for (int i = 0; i < 60; ++i) {
    const double saved = static_cast<double>(over.bytes) - static_cast<double>(within.bytes);
    const double price = (within.cost - over.cost) / saved;
    if (!(price > 0)) break;
    Solution next = solveAtPrice(problem, options, 1, price);
    if (!next.feasible) break;
    bound = std::max(bound, next.lowerBound - price * limit);
    const double here = next.cost + price * static_cast<double>(next.bytes);
    const double known = within.cost + price * static_cast<double>(within.bytes);
    const bool better = here < known - 1e-12 * std::abs(known);
    if (next.bytes <= options.memoryLimit) {
      if (next.cost < within.cost || (next.cost == within.cost && next.bytes < within.bytes))
        within = next;
      else
        break;
    } else {
      if (!better) break;
      over = next;
    }
    if (!better) break;
  }
  within.lowerBound = std::min(bound, within.cost);
  within.gap = within.cost - within.lowerBound;
  return within;
}

} // namespace opc::planner
