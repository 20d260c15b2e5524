// Pruning, elimination, and where tables would grow too large: dual bounds, then elimination of what is left of them.
// SPDX-License-Identifier: Apache-2.0
#include "ExactSolver.h"

#include "DualBounds.h"
#include "Elimination.h"

#include <algorithm>
#include <cmath>

namespace opc::planner {
namespace {

// New work (table entries looked at) that the first elimination without bounds may take, one after some sweeps, the
// last one when sweeping is over, and all sweeps together. Counts, not times: the same answer everywhere.
constexpr uint64_t kFirstWork = uint64_t{1} << 24, kTryWork = uint64_t{1} << 23, kLastWork = uint64_t{1} << 25;
constexpr uint64_t kDualWork = uint64_t{36} << 24, kDualWorkByVariable = uint64_t{1} << 15;
// Tables of the cheap eliminations that come before the bounds.
constexpr uint64_t kSmallTable = uint64_t{1} << 14;
constexpr int kLevels = 4;

class Solver {
public:
  Solver(CostTables *tables, const Options &options) : tables_(tables), options_(options), dominance_(tables) {}

  /// The optimum, or with `bounds` what is proven of it; infeasible or unfinished (values empty) otherwise.
  GraphAnswer level(PairGraph graph, bool bounds, int depth);
  void count(GraphAnswer *answer) const {
    answer->eliminated = eliminated_;
    answer->distinct = memo_.steps.size();
    answer->sweeps = sweeps_;
  }

private:
  GraphAnswer remainder(const PairGraph &graph, bool bounds);
  GraphAnswer bounded(const PairGraph &graph);
  enum class Tried { kSolved, kInfeasible, kTooLarge };
  Tried eliminateWithin(const PairGraph &graph, DualBounds *dual, Cost slack, uint64_t work, GraphAnswer *best);
  Cost costOf(const PairGraph &graph, const std::vector<uint32_t> &values) const;

  CostTables *tables_;
  const Options &options_;
  Dominance dominance_;
  EliminationMemo memo_;
  uint64_t eliminated_ = 0, sweeps_ = 0, tryWork_ = 0;
};

GraphAnswer infeasible(uint32_t blamed) {
  GraphAnswer a;
  a.feasible = false;
  a.blamed = blamed;
  return a;
}

GraphAnswer exact(Cost cost, std::vector<uint32_t> values) {
  GraphAnswer a;
  a.values = std::move(values);
  a.cost = a.bound = cost;
  a.method = "elimination";
  return a;
}

Cost Solver::costOf(const PairGraph &graph, const std::vector<uint32_t> &values) const {
  Cost cost = graph.constant;
  for (uint32_t v = 0; v < graph.unary.size(); ++v)
    cost = addCosts(cost, (*tables_)[graph.unary[v]].entries[values[v]]);
  for (const PairGraph::Edge &e : graph.edges) {
    const CostTables::Table &t = (*tables_)[e.table];
    cost = addCosts(cost, t.entries[values[e.a] * t.dims[1] + values[e.b]]);
  }
  return cost;
}

GraphAnswer Solver::level(PairGraph graph, bool bounds, int depth) {
  const Pruned pruned = dominance_.prune(&graph);
  if (!pruned.feasible) return infeasible(pruned.blamed);
  Elimination cheap(graph, tables_, &memo_);
  cheap.run({std::min(kSmallTable, options_.tableLimit), UINT64_MAX, 2});
  eliminated_ += cheap.eliminated();
  if (cheap.infeasible()) return infeasible(cheap.blamed());

  GraphAnswer answer;
  std::vector<uint32_t> values(graph.unary.size(), 0);
  if (cheap.finished()) {
    answer = exact(cheap.constant(), {});
  } else {
    std::vector<uint32_t> variables;
    PairGraph rest = cheap.rest(&variables);
    const bool shrank = rest.unary.size() < graph.unary.size();
    answer = shrank && depth > 0 ? level(std::move(rest), bounds, depth - 1) : remainder(rest, bounds);
    if (!answer.feasible) answer.blamed = variables[answer.blamed];
    if (answer.values.empty()) return answer;
    for (size_t i = 0; i < variables.size(); ++i) values[variables[i]] = answer.values[i];
  }
  cheap.decode(&values);
  for (size_t v = 0; v < values.size(); ++v) values[v] = tables_->lists.data(pruned.kept[v])[values[v]];
  answer.values = std::move(values);
  return answer;
}

/// Elimination within the limits, and dual bounds when those are in the way.
GraphAnswer Solver::remainder(const PairGraph &graph, bool bounds) {
  Elimination all(graph, tables_, &memo_);
  all.run({options_.tableLimit, memo_.work + (bounds ? kFirstWork : tryWork_), SIZE_MAX});
  if (all.infeasible()) return infeasible(all.blamed());
  if (all.finished()) {
    eliminated_ += all.eliminated();
    std::vector<uint32_t> values(graph.unary.size(), 0);
    all.decode(&values);
    return exact(all.constant(), std::move(values));
  }
  return bounds ? bounded(graph) : GraphAnswer{};
}

/// Lower bounds by sweeps; then only values whose reduced cost is at most some slack are eliminated exactly. What is
/// left out costs more than bound + slack: when the best of the rest is no more than that, it is the optimum.
GraphAnswer Solver::bounded(const PairGraph &graph) {
  GraphAnswer best;
  best.method = "dual bounds";
  best.bound = std::max<Cost>(graph.constant, 0);
  DualBounds dual(graph, *tables_);
  const uint64_t most = kDualWork + kDualWorkByVariable * graph.unary.size();
  Cost solved = 0;
  int next = 10;
  for (int done = 0; done < options_.sweeps;) {
    const int batch = std::min(next, options_.sweeps - done);
    const uint64_t start = dual.work();
    dual.sweep(batch);
    done += batch;
    sweeps_ += static_cast<uint64_t>(batch);
    const Cost bound = dual.bound();
    best.bound = std::max(best.bound, bound);
    const std::vector<uint32_t> rounded = dual.round();
    const Cost cost = costOf(graph, rounded);
    if (cost < best.cost) {
      best.cost = cost;
      best.values = rounded;
    }
    const uint64_t each = (dual.work() - start) / static_cast<uint64_t>(batch) + 1;
    const uint64_t affordable = dual.work() < most ? (most - dual.work()) / each : 0;
    next = static_cast<int>(std::min<uint64_t>(affordable, static_cast<uint64_t>(done)));
    const bool last = done >= options_.sweeps || next < 5;
    // Small slacks first: they give good solutions for little, and the largest that is needed follows from those. What
    // was not too large once is where the next batch begins.
    double step = 8;
    for (Cost slack = std::max({solved, bound >> 18, Cost{1}});;) {
      if (best.cost < kNever) slack = std::min(slack, std::max<Cost>(best.cost - bound, 0));
      const Tried tried = eliminateWithin(graph, &dual, slack, last ? kLastWork : kTryWork, &best);
      if (tried == Tried::kInfeasible && slack >= kNever / 16) return infeasible(0);
      if (tried != Tried::kTooLarge) solved = slack;
      if (best.cost < kNever && best.cost - bound <= slack && tried == Tried::kSolved) {
        best.bound = best.cost;
        best.method = "elimination after dual bounds";
        return best;
      }
      // Too large: better bounds first; at the end, the largest that is not.
      if (tried == Tried::kTooLarge && (!last || step < 2)) break;
      if (tried == Tried::kTooLarge) {
        step = std::sqrt(step);
        slack = solved;
      }
      slack = static_cast<Cost>(static_cast<double>(std::max<Cost>(slack, 1)) * step) + 1;
    }
    if (last) break;
  }
  return best;
}

/// The best assignment to values within a slack of the bound, offered to `best`.
Solver::Tried Solver::eliminateWithin(const PairGraph &graph, DualBounds *dual, Cost slack, uint64_t work,
                                      GraphAnswer *best) {
  PairGraph some = graph;
  const std::vector<uint32_t> kept = dual->within(slack, &tables_->lists);
  const Incidence incidence(some);
  for (uint32_t v = 0; v < kept.size(); ++v) {
    if (tables_->lists.length(kept[v]) == 0) return Tried::kInfeasible;
    if (tables_->lists.length(kept[v]) < some.valuesOf(v, *tables_))
      restrictVariable(&some, incidence, tables_, v, kept[v]);
  }
  tryWork_ = work;
  GraphAnswer answer = level(std::move(some), false, kLevels);
  if (!answer.feasible) return Tried::kInfeasible;
  if (answer.values.empty()) return Tried::kTooLarge;
  for (uint32_t v = 0; v < kept.size(); ++v) answer.values[v] = tables_->lists.data(kept[v])[answer.values[v]];
  const Cost cost = costOf(graph, answer.values);
  if (cost < best->cost) {
    best->cost = cost;
    best->values = std::move(answer.values);
  }
  return Tried::kSolved;
}

} // namespace

GraphAnswer minimise(PairGraph graph, CostTables *tables, const Options &options) {
  Solver solver(tables, options);
  GraphAnswer answer = solver.level(std::move(graph), true, kLevels);
  solver.count(&answer);
  return answer;
}

} // namespace opc::planner
