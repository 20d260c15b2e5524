// Pruning of values that no optimal solution needs.
// SPDX-License-Identifier: Apache-2.0
#include "PairGraph.h"

#include <algorithm>

namespace opc::planner {
namespace {

constexpr uint32_t kAll = UINT32_MAX - 1;
constexpr size_t kStride = 8; // of the columns that are looked at first

/// The costs of one edge as seen from one of its ends: a row for each of the end's values, equal columns once.
struct View {
  size_t columns = 0;
  size_t never = 0; // entries that are impossible, to try the most telling edge first
  std::vector<Cost> rows;
  std::vector<uint64_t> possible; // by own value: which of the first 64 columns are possible
  std::vector<Cost> least;        // by own value: of its row
  /// A lower bound of every difference between the rows of b and a: where a is least, b is at least its own minimum.
  Cost leastGain(size_t a, size_t b) const { return least[b] - least[a]; }
};

View viewOf(const CostTables::Table &table, bool second) {
  const size_t own = table.dims[second ? 1 : 0], other = table.dims[second ? 0 : 1];
  const size_t ownStride = second ? 1 : other, otherStride = second ? own : 1;
  // Columns in the order of their first appearance, by content.
  SequenceIndex seen;
  std::vector<size_t> distinct;
  std::vector<uint32_t> words(own * 2);
  for (size_t c = 0; c < other; ++c) {
    for (size_t r = 0; r < own; ++r) {
      const uint64_t e = static_cast<uint64_t>(table.entries[r * ownStride + c * otherStride]);
      words[2 * r] = static_cast<uint32_t>(e);
      words[2 * r + 1] = static_cast<uint32_t>(e >> 32);
    }
    const size_t before = seen.size();
    if (seen.id(words) == before) distinct.push_back(c);
  }
  View view;
  view.columns = distinct.size();
  view.rows.resize(own * distinct.size());
  for (size_t r = 0; r < own; ++r)
    for (size_t i = 0; i < distinct.size(); ++i) {
      const Cost e = table.entries[r * ownStride + distinct[i] * otherStride];
      view.rows[r * view.columns + i] = e;
      view.never += e >= kNever;
    }
  view.least.assign(own, kNever);
  for (size_t r = 0; r < own; ++r)
    for (size_t i = 0; i < view.columns; ++i) view.least[r] = std::min(view.least[r], view.rows[r * view.columns + i]);
  view.possible.assign(own, 0);
  for (size_t r = 0; r < own; ++r)
    for (size_t i = 0; i < std::min<size_t>(view.columns, 64); ++i)
      view.possible[r] |= uint64_t{view.rows[r * view.columns + i] < kNever} << i;
  return view;
}

} // namespace

Incidence::Incidence(const PairGraph &graph) : begins_(graph.unary.size() + 1, 0), edges_(graph.edges.size() * 2) {
  for (const PairGraph::Edge &e : graph.edges) {
    ++begins_[e.a + 1];
    ++begins_[e.b + 1];
  }
  for (size_t v = 1; v < begins_.size(); ++v) begins_[v] += begins_[v - 1];
  std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
  for (uint32_t e = 0; e < graph.edges.size(); ++e) {
    edges_[next[graph.edges[e].a]++] = e;
    edges_[next[graph.edges[e].b]++] = e;
  }
}

void restrictVariable(PairGraph *graph, const Incidence &incidence, CostTables *tables, uint32_t variable,
                      uint32_t list) {
  graph->unary[variable] = tables->restricted(graph->unary[variable], 0, list);
  for (const uint32_t *e = incidence.begin(variable); e != incidence.end(variable); ++e) {
    PairGraph::Edge &edge = graph->edges[*e];
    edge.table = tables->restricted(edge.table, edge.a == variable ? 0 : 1, list);
  }
}

/// key: the unary table, then (table, side) of each edge. Returns a list id or kAll.
uint32_t Dominance::survivors(const std::vector<uint32_t> &key) {
  const CostTables &tables = *tables_;
  const std::vector<Cost> &unary = tables[key[0]].entries;
  const size_t n = unary.size();
  std::vector<View> views;
  for (size_t i = 1; i < key.size(); i += 2) views.push_back(viewOf(tables[key[i]], key[i + 1] != 0));
  std::stable_sort(views.begin(), views.end(),
                   [](const View &a, const View &b) { return a.never * b.rows.size() > b.never * a.rows.size(); });

  std::vector<bool> alive(n);
  for (size_t a = 0; a < n; ++a) {
    alive[a] = unary[a] < kNever;
    for (const View &v : views) {
      const Cost *row = v.rows.data() + a * v.columns;
      if (alive[a]) alive[a] = std::any_of(row, row + v.columns, [](Cost c) { return c < kNever; });
    }
  }
  /// Whether b is never worse than a.
  auto replaces = [&](size_t b, size_t a) {
    for (const View &v : views)
      if (v.possible[a] & ~v.possible[b]) return false;
    // Some columns already tell most of the pairs that fail: a maximum over all is no less.
    Cost atLeast = unary[b] - unary[a];
    for (const View &v : views) {
      const Cost *rowA = v.rows.data() + a * v.columns, *rowB = v.rows.data() + b * v.columns;
      Cost most = -kNever;
      for (size_t x = (a + b) % kStride; x < v.columns; x += kStride)
        if (rowA[x] < kNever) most = std::max(most, rowB[x] - rowA[x]);
      if (most == -kNever) most = v.leastGain(a, b);
      atLeast += most;
    }
    if (atLeast > 0) return false;
    Cost worst = unary[b] - unary[a];
    for (const View &v : views) {
      const Cost *rowA = v.rows.data() + a * v.columns, *rowB = v.rows.data() + b * v.columns;
      Cost most = -kNever;
      for (size_t x = 0; x < v.columns; ++x) {
        if (rowA[x] >= kNever) continue;
        if (rowB[x] >= kNever) return false;
        most = std::max(most, rowB[x] - rowA[x]);
      }
      worst += most;
    }
    return worst <= 0;
  };
  for (size_t a = n; a-- > 0;) {
    if (!alive[a]) continue;
    for (size_t b = 0; b < n; ++b)
      if (b != a && alive[b] && replaces(b, a)) {
        alive[a] = false;
        break;
      }
  }
  std::vector<uint32_t> list;
  for (uint32_t a = 0; a < n; ++a)
    if (alive[a]) list.push_back(a);
  return list.size() == n ? kAll : tables_->lists.id(list);
}

Pruned Dominance::prune(PairGraph *graph, int rounds) {
  const Incidence incidence(*graph);
  const size_t count = graph->unary.size();
  Pruned pruned;
  pruned.kept.assign(count, kAll);
  std::vector<bool> dirty(count, true);
  std::vector<uint32_t> key;
  for (int round = 0; round < rounds; ++round) {
    bool changed = false;
    for (uint32_t v = 0; v < count; ++v) {
      if (!dirty[v]) continue;
      dirty[v] = false;
      key.assign(1, graph->unary[v]);
      for (const uint32_t *e = incidence.begin(v); e != incidence.end(v); ++e) {
        key.push_back(graph->edges[*e].table);
        key.push_back(graph->edges[*e].b == v);
      }
      const uint32_t memo = memo_.id(key);
      if (memo == results_.size()) results_.push_back(survivors(key));
      const uint32_t list = results_[memo];
      if (list == kAll) continue;
      if (tables_->lists.length(list) == 0) {
        pruned.feasible = false;
        pruned.blamed = v;
        return pruned;
      }
      changed = true;
      restrictVariable(graph, incidence, tables_, v, list);
      pruned.kept[v] = pruned.kept[v] == kAll ? list : tables_->compose(pruned.kept[v], list);
      for (const uint32_t *e = incidence.begin(v); e != incidence.end(v); ++e)
        dirty[graph->edges[*e].a == v ? graph->edges[*e].b : graph->edges[*e].a] = true;
    }
    if (!changed) break;
  }
  std::vector<uint32_t> all; // identity lists where nothing went
  for (uint32_t v = 0; v < count; ++v) {
    if (pruned.kept[v] != kAll) continue;
    const uint32_t n = graph->valuesOf(v, *tables_);
    if (all.size() <= n) all.resize(n + 1, UINT32_MAX);
    if (all[n] == UINT32_MAX) {
      std::vector<uint32_t> identity(n);
      for (uint32_t i = 0; i < n; ++i) identity[i] = i;
      all[n] = tables_->lists.id(identity);
    }
    pruned.kept[v] = all[n];
  }
  return pruned;
}

} // namespace opc::planner
