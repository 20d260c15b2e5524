// Variables with tables of costs on single variables and on pairs: what the planner minimises over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CostTables.h"

#include <cstdint>
#include <vector>

namespace opc::planner {

/// The cost of an assignment is `constant` + the sum of unary[v] at v's value + the sum of the edges' entries.
struct PairGraph {
  struct Edge {
    uint32_t a, b;  // variables, a < b; at most one edge for a pair
    uint32_t table; // rows are values of a, columns of b
  };
  std::vector<uint32_t> unary; // by variable: tables of rank 1; their length is the number of values
  std::vector<Edge> edges;
  Cost constant = 0;

  uint32_t valuesOf(uint32_t variable, const CostTables &tables) const { return tables[unary[variable]].dims[0]; }
};

/// The edges at each variable, in the order of the edge list.
class Incidence {
public:
  explicit Incidence(const PairGraph &graph);
  const uint32_t *begin(uint32_t variable) const { return edges_.data() + begins_[variable]; }
  const uint32_t *end(uint32_t variable) const { return edges_.data() + begins_[variable + 1]; }

private:
  std::vector<uint32_t> begins_, edges_;
};

/// Keeps only the listed values of a variable (a list of CostTables::lists).
void restrictVariable(PairGraph *graph, const Incidence &incidence, CostTables *tables, uint32_t variable,
                      uint32_t list);

/// What a pruning left: for each variable the list of its former values that it still has.
struct Pruned {
  bool feasible = true;
  uint32_t blamed = 0; // infeasible: the variable that has no value left
  std::vector<uint32_t> kept;
};

/// Removes values that cannot be in any solution (no partner on some edge) and values that another value of the same
/// variable can replace without loss whatever the neighbours do (Goldstein's dominance criterion; of two that can
/// replace each other the first stays). Memoised by unary and edge tables in `memo`, so that repeated layers cost a
/// look-up.
class Dominance {
public:
  explicit Dominance(CostTables *tables) : tables_(tables) {}
  Pruned prune(PairGraph *graph, int rounds = 2);

private:
  uint32_t survivors(const std::vector<uint32_t> &key);

  CostTables *tables_;
  SequenceIndex memo_;
  std::vector<uint32_t> results_; // by memo id: a list, or kAll, or kEmpty
};

} // namespace opc::planner
