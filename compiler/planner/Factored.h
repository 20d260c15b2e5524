// A table of pairs in a smaller form: equal columns once, and rows that are the least of other rows not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CostTables.h"

#include <cstdint>
#include <vector>

namespace opc::planner {

/// table[x][y] = min over b in cover(x) of entries[b][columnClass[y]]. What a tensor costs its reader has this form:
/// with a copy it costs what is less, from the produced state or from the copy. Exact, and found by comparing rows.
struct Factored {
  explicit Factored(const CostTables::Table &table);

  /// For each row (or column) the least of table - message of the other side; sums near kNever where all is impossible.
  void leastByRow(const std::vector<Cost> &columns, std::vector<Cost> *least) const;
  void leastByColumn(const std::vector<Cost> &rows, std::vector<Cost> *least) const;
  /// The least of table - rows - columns over what is possible.
  Cost least(const std::vector<Cost> &rows, const std::vector<Cost> &columns) const;

  /// Entries that a minimum looks at.
  size_t size() const { return entries_.size() + cover_.size() + columnClass_.size(); }

private:
  void columnMost(const std::vector<Cost> &columns, std::vector<Cost> *most) const;
  void rowMost(const std::vector<Cost> &rows, std::vector<Cost> *most) const;

  size_t bases_ = 0, classes_ = 0;
  std::vector<Cost> entries_; // bases_ x classes_
  std::vector<uint32_t> columnClass_;
  std::vector<uint32_t> coverBegin_, cover_; // by row: its bases
  mutable std::vector<Cost> most_, best_;    // room for a minimum at work
};

} // namespace opc::planner
