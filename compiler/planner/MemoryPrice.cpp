// Solving at a price for memory, and finding the price that a limit asks for.
// SPDX-License-Identifier: Apache-2.0
#include "MemoryPrice.h"

#include "CostModel.h"
#include "ExactSolver.h"

#include <algorithm>
#include <cmath>
#include <map>

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

namespace {

/// What one op or tensor has chosen, next to the others: parts of two solutions that touch in no op and no tensor can
/// be exchanged one by one, and their costs and bytes add up. Takes from `over`, which is cheaper, those parts that
/// save most for their bytes, as far as the limit allows.
void takeParts(const Problem &problem, const Solution &over, uint64_t limit, Solution *within) {
  // Tensors join the ops at their ends where they differ, or where one of these does.
  std::vector<uint32_t> parent(problem.ops.size());
  for (uint32_t o = 0; o < parent.size(); ++o) parent[o] = o;
  const auto root = [&](uint32_t o) {
    while (parent[o] != o) o = parent[o] = parent[parent[o]];
    return o;
  };
  std::vector<uint32_t> producer(problem.tensors.size());
  std::vector<bool> touched(problem.ops.size(), false);
  for (uint32_t o = 0; o < problem.ops.size(); ++o)
    for (uint32_t t : problem.ops[o].outputs) producer[t] = o;
  const auto differs = [&](uint32_t o) { return over.signature[o] != within->signature[o]; };
  std::vector<bool> tensorDiffers(problem.tensors.size());
  for (uint32_t t = 0; t < problem.tensors.size(); ++t)
    tensorDiffers[t] = differs(producer[t]) || over.copies[t] != within->copies[t];
  // A reader's cost depends on its own choice and the tensor's: where either differs, both belong to one part.
  for (uint32_t o = 0; o < problem.ops.size(); ++o) {
    touched[o] = touched[o] || differs(o);
    for (uint32_t t : problem.ops[o].outputs) touched[o] = touched[o] || tensorDiffers[t];
    for (uint32_t t : problem.ops[o].inputs)
      if (tensorDiffers[t] && differs(o)) parent[root(o)] = root(producer[t]);
  }
  std::map<uint32_t, std::vector<uint32_t>> parts; // in the order of their roots
  for (uint32_t o = 0; o < problem.ops.size(); ++o)
    if (touched[o]) parts[root(o)].push_back(o);
  if (parts.size() < 2) return;
  const auto exchange = [&](const std::vector<uint32_t> &ops, const Solution &from, Solution *to) {
    for (uint32_t o : ops) {
      to->signature[o] = from.signature[o];
      for (uint32_t t : problem.ops[o].outputs) to->copies[t] = from.copies[t];
    }
    to->cost = costWithCopies(problem, to->signature, to->copies);
    to->bytes = heldBytes(problem, *to);
  };
  struct Part {
    double saved, bytes;
    const std::vector<uint32_t> *ops;
  };
  std::vector<Part> list;
  if (parts.size() > 2000) return; // each is priced on the whole graph
  const Solution before = *within;
  for (const auto &[first, ops] : parts) {
    Solution changed = before;
    exchange(ops, over, &changed);
    if (changed.cost < before.cost)
      list.push_back(
          {before.cost - changed.cost, static_cast<double>(changed.bytes) - static_cast<double>(before.bytes), &ops});
  }
  std::sort(list.begin(), list.end(), [](const Part &a, const Part &b) {
    const double left = a.saved * std::max(b.bytes, 0.0), right = b.saved * std::max(a.bytes, 0.0);
    return left != right ? left > right : (*a.ops)[0] < (*b.ops)[0];
  });
  for (const Part &part : list) {
    Solution changed = *within;
    exchange(*part.ops, over, &changed);
    if (changed.bytes <= limit && changed.cost < within->cost) *within = std::move(changed);
  }
}

} // namespace

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
  takeParts(problem, over, options.memoryLimit, &within);
  within.lowerBound = std::min(bound, within.cost);
  within.gap = within.cost - within.lowerBound;
  return within;
}

} // namespace opc::planner
