// Min-plus elimination of variables: exact, and a look-up where the same step was done before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PairGraph.h"

#include <cstdint>
#include <vector>

namespace opc::planner {

/// Steps that were done, by tables and relative positions of their scopes.
struct EliminationMemo {
  struct Step {
    bool infeasible = false;
    Cost offset = 0;                 // the minimum that was taken out of the table
    uint32_t table = UINT32_MAX;     // what is left on the neighbours; UINT32_MAX: nothing but the offset
    std::vector<uint16_t> decisions; // the variable's best value for each assignment of the neighbours
  };
  SequenceIndex keys;
  std::vector<Step> steps;
  uint64_t work = 0;    // table entries looked at, in all
  uint64_t decided = 0; // decisions held, in all
};

class Elimination {
public:
  struct Limits {
    uint64_t table = 0;      // entries of a step's result
    uint64_t work = 0;       // entries that new steps may look at, in all
    size_t arity = SIZE_MAX; // neighbours of a variable that is eliminated
  };

  Elimination(const PairGraph &graph, CostTables *tables, EliminationMemo *memo);

  /// Eliminates in the order of least work (ties: the later variable, so that earlier ops decide last) until nothing is
  /// left or a limit is in the way.
  void run(const Limits &limits);
  bool finished() const { return left_ == 0 && !infeasible_; }
  bool infeasible() const { return infeasible_; }
  uint32_t blamed() const { return blamed_; } // infeasible: the variable where it showed
  /// finished: the least cost. Else what has been taken out so far.
  Cost constant() const { return constant_; }
  uint64_t eliminated() const { return done_.size(); }

  /// What is left, as pairs (only after runs with arity <= 2); `variables` gives the former number of each variable.
  PairGraph rest(std::vector<uint32_t> *variables) const;
  /// Fills in the eliminated variables, given the values of those that are left.
  void decode(std::vector<uint32_t> *values) const;

private:
  struct Factor {
    uint32_t table = 0;
    uint32_t scope = 0; // where its variables (ascending) begin in scopes_
    uint32_t arity = 0;
    bool alive = true;
  };
  struct Done {
    uint32_t variable, step, scope, arity;
  };
  struct Entry {
    uint64_t weight;
    uint32_t variable, stamp;
    bool operator<(const Entry &o) const { return weight != o.weight ? weight > o.weight : variable < o.variable; }
  };

  void addFactor(uint32_t table, const std::vector<uint32_t> &scope);
  void removeFactor(uint32_t factor);
  void weigh(uint32_t variable);
  void gather(uint32_t variable);
  bool fixSingle(uint32_t variable);
  bool eliminate(uint32_t variable, const Limits &limits);
  EliminationMemo::Step compute(uint32_t variable) const;

  CostTables *tables_;
  EliminationMemo *memo_;
  std::vector<uint32_t> size_;
  std::vector<Factor> factors_;
  std::vector<uint32_t> scopes_;
  std::vector<std::vector<uint32_t>> of_; // by variable: its factors
  std::vector<bool> gone_;
  std::vector<uint32_t> stamp_;
  std::vector<Entry> heap_;
  std::vector<Done> done_;
  Cost constant_ = 0;
  size_t left_ = 0;
  size_t arityLimit_ = SIZE_MAX;
  bool infeasible_ = false;
  uint32_t blamed_ = 0;
  // Of the step at hand: the neighbours, ascending; how many of them come before the variable; its factors with the
  // neighbours that each has.
  struct Part {
    uint64_t members; // bit i: neighbours_[i]
    uint32_t table;
    bool operator<(const Part &o) const { return members != o.members ? members < o.members : table < o.table; }
  };
  std::vector<uint32_t> neighbours_, key_;
  uint32_t before_ = 0;
  std::vector<Part> parts_;
};

} // namespace opc::planner
