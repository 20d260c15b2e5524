// Tables of whole-number costs, one of a content: equal tables have equal ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SequenceIndex.h"

#include <cstdint>
#include <vector>

namespace opc::planner {

/// Costs are whole numbers of a unit that CostModel chooses, so that sums are exact and equal layers give equal tables.
using Cost = int64_t;
/// What is impossible. Far above any sum of finite costs, and four of them can be added without overflow.
constexpr Cost kNever = Cost{1} << 60;
inline Cost addCosts(Cost a, Cost b) {
  const Cost sum = a + b;
  return sum < kNever ? sum : kNever;
}

class CostTables {
public:
  struct Table {
    std::vector<uint32_t> dims;
    std::vector<Cost> entries; // row-major; entries >= kNever are kNever
    uint64_t hash = 0;
    bool zero = false; // all entries are 0
  };

  uint32_t intern(std::vector<uint32_t> dims, std::vector<Cost> entries);
  uint32_t zeros(uint32_t size) { return intern({size}, std::vector<Cost>(size, 0)); }
  const Table &operator[](uint32_t id) const { return tables_[id]; }
  size_t size() const { return tables_.size(); }
  /// Entries held in all, as a measure of memory.
  uint64_t entries() const { return total_; }

  /// Lists of values (indices along an axis), interned; restrictions are memoised by their ids.
  SequenceIndex lists;
  /// The list of what `inner` (indices into `outer`) selects.
  uint32_t compose(uint32_t outer, uint32_t inner);
  /// A table of which one axis keeps only the listed indices.
  uint32_t restricted(uint32_t table, uint32_t axis, uint32_t list);
  /// A table with one axis fixed at an index, without that axis.
  uint32_t slice(uint32_t table, uint32_t axis, uint32_t index);
  /// The sum of two tables of equal dims.
  uint32_t sum(uint32_t a, uint32_t b);

private:
  /// What make() gave when it was first called with this key.
  template <class Make> uint32_t once(std::vector<uint32_t> key, Make make);

  std::vector<Table> tables_;
  std::vector<uint32_t> slots_ = std::vector<uint32_t>(64, UINT32_MAX);
  uint64_t total_ = 0;
  SequenceIndex done_;
  std::vector<uint32_t> results_;
};

} // namespace opc::planner
