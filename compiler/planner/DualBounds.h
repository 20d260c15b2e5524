// A lower bound on a pairwise cost, by moving costs between variables and edges (sequential tree-reweighted messages).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Factored.h"
#include "PairGraph.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace opc::planner {

/// Sequential tree-reweighted message passing (TRW-S), in whole numbers and as explicit moves of cost: a visit to a
/// variable first takes from each of its edges what the edge costs at least for each value, then gives equal shares to
/// the edges that lie ahead. Any messages give a true bound, so rounding cannot spoil a proof. A visit is memoised by
/// tables and messages: repeated layers cost look-ups.
class DualBounds {
public:
  DualBounds(const PairGraph &graph, const CostTables &tables);

  /// `pairs` times one pass up and one down over all variables.
  void sweep(int pairs);
  /// What no assignment is below, by the messages of now.
  Cost bound();
  /// An assignment that follows the messages; its cost may be kNever.
  std::vector<uint32_t> round() const;
  /// One more pass, and for each variable the list (of `lists`) of values that an assignment of at most `slack` more
  /// than what bound() last said can have. No sweep may lie between the two.
  std::vector<uint32_t> within(Cost slack, SequenceIndex *lists);
  /// Table entries and values looked at so far, as a measure of time that is the same everywhere.
  uint64_t work() const { return work_; }

private:
  struct Side { // an edge as one of its ends sees it
    uint32_t edge, table;
    bool second; // this end is the columns
    bool later;  // the other end has the higher number
    uint32_t other;
  };
  uint32_t &into(const Side &s) { return messages_[2 * s.edge + (s.second ? 1 : 0)]; }
  uint32_t into(const Side &s) const { return messages_[2 * s.edge + (s.second ? 1 : 0)]; }
  uint32_t across(const Side &s) const { return messages_[2 * s.edge + (s.second ? 0 : 1)]; }
  uint32_t visitKey(uint32_t variable, bool forward);
  uint32_t collected(const Side &s);
  void visit(uint32_t variable, bool forward);
  /// The costs at a variable when it has taken what its edges cost at least; `taken` are the messages that say so.
  void gathered(uint32_t variable, std::vector<Cost> *values, std::vector<uint32_t> *taken);
  void pass(bool forward);
  void sweepPlainly(int pairs);
  const Factored &factored(uint32_t table);
  void compact();

  const PairGraph &graph_;
  const CostTables &tables_;
  std::vector<std::vector<Side>> sides_;
  std::vector<int> weight_;        // by variable: the larger of its numbers of earlier and later neighbours
  CostTables vectors_;             // messages; their least entry is 0
  std::vector<uint32_t> messages_; // by edge: what was taken from it into its first end, into its second end
  std::vector<std::unique_ptr<Factored>> factored_; // by table
  SequenceIndex visits_, takes_, bounds_;
  std::vector<uint32_t> visitBegin_, visitResult_, takeResult_;
  std::vector<Cost> boundResult_;
  std::vector<uint32_t> key_;
  uint64_t work_ = 0;
  Cost passes_ = 0;    // of within() since bound()
  bool plain_ = false; // the graph does not repeat itself: remembering costs more than it saves
};

} // namespace opc::planner
