// Interning of cost tables, and the memoised operations on them.
// SPDX-License-Identifier: Apache-2.0
#include "CostTables.h"

#include <algorithm>

namespace opc::planner {
namespace {

enum Operation : uint32_t { kRestrict, kSlice, kSum, kCompose };

/// Sizes before, of and after an axis of a row-major table.
struct AxisView {
  size_t before = 1, size = 1, after = 1;
  AxisView(const std::vector<uint32_t> &dims, uint32_t axis) {
    for (size_t i = 0; i < dims.size(); ++i) (i < axis ? before : i == axis ? size : after) *= dims[i];
  }
};

} // namespace

uint32_t CostTables::intern(std::vector<uint32_t> dims, std::vector<Cost> entries) {
  uint64_t hash = dims.size();
  for (uint32_t d : dims) hash = mixHash(hash, d);
  bool zero = true;
  for (Cost c : entries) {
    hash = mixHash(hash, static_cast<uint64_t>(c));
    zero &= c == 0;
  }
  size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot] != UINT32_MAX; slot = (slot + 1) & (slots_.size() - 1)) {
    const Table &t = tables_[slots_[slot]];
    if (t.hash == hash && t.dims == dims && t.entries == entries) return slots_[slot];
  }
  const uint32_t fresh = static_cast<uint32_t>(tables_.size());
  slots_[slot] = fresh;
  total_ += entries.size();
  tables_.push_back({std::move(dims), std::move(entries), hash, zero});
  if (tables_.size() * 2 > slots_.size()) {
    slots_.assign(slots_.size() * 2, UINT32_MAX);
    for (uint32_t i = 0; i < tables_.size(); ++i) {
      size_t s = tables_[i].hash & (slots_.size() - 1);
      while (slots_[s] != UINT32_MAX) s = (s + 1) & (slots_.size() - 1);
      slots_[s] = i;
    }
  }
  return fresh;
}

template <class Make> uint32_t CostTables::once(std::vector<uint32_t> key, Make make) {
  const uint32_t id = done_.id(key);
  if (id < results_.size()) return results_[id];
  results_.push_back(UINT32_MAX);
  return results_[id] = make();
}

uint32_t CostTables::compose(uint32_t outer, uint32_t inner) {
  return once({kCompose, outer, inner}, [&] {
    std::vector<uint32_t> list(lists.length(inner));
    for (size_t i = 0; i < list.size(); ++i) list[i] = lists.data(outer)[lists.data(inner)[i]];
    return lists.id(list);
  });
}

uint32_t CostTables::restricted(uint32_t table, uint32_t axis, uint32_t list) {
  return once({kRestrict, table, axis, list}, [&] {
    const Table &t = tables_[table];
    const AxisView view(t.dims, axis);
    const size_t kept = lists.length(list);
    const uint32_t *index = lists.data(list);
    std::vector<Cost> entries(view.before * kept * view.after);
    Cost *out = entries.data();
    for (size_t b = 0; b < view.before; ++b)
      for (size_t k = 0; k < kept; ++k, out += view.after)
        std::copy_n(t.entries.data() + (b * view.size + index[k]) * view.after, view.after, out);
    std::vector<uint32_t> dims = t.dims;
    dims[axis] = static_cast<uint32_t>(kept);
    return intern(std::move(dims), std::move(entries));
  });
}

uint32_t CostTables::slice(uint32_t table, uint32_t axis, uint32_t index) {
  return once({kSlice, table, axis, index}, [&] {
    const Table &t = tables_[table];
    const AxisView view(t.dims, axis);
    std::vector<Cost> entries;
    entries.reserve(view.before * view.after);
    for (size_t b = 0; b < view.before; ++b) {
      const Cost *from = t.entries.data() + (b * view.size + index) * view.after;
      entries.insert(entries.end(), from, from + view.after);
    }
    std::vector<uint32_t> dims = t.dims;
    dims.erase(dims.begin() + axis);
    return intern(std::move(dims), std::move(entries));
  });
}

uint32_t CostTables::sum(uint32_t a, uint32_t b) {
  if (a > b) std::swap(a, b);
  return once({kSum, a, b}, [&] {
    std::vector<Cost> entries = tables_[a].entries;
    for (size_t i = 0; i < entries.size(); ++i) entries[i] = addCosts(entries[i], tables_[b].entries[i]);
    return intern(tables_[a].dims, std::move(entries));
  });
}

} // namespace opc::planner
