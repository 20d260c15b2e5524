// Sequential tree-reweighted message passing on whole numbers.
// SPDX-License-Identifier: Apache-2.0
#include "DualBounds.h"

#include <algorithm>

namespace opc::planner {
namespace {

/// Messages beyond this are cut off: any message gives a true bound, and sums must not overflow.
constexpr Cost kMostMessage = kNever / 16, kMostSum = kNever / 4;
/// Entries of messages that are remembered before the memory is cleared.
constexpr uint64_t kMostEntries = uint64_t{1} << 25;

Cost entryOf(const CostTables::Table &t, bool second, size_t own, size_t other) {
  return second ? t.entries[other * t.dims[1] + own] : t.entries[own * t.dims[1] + other];
}

void subtractLeast(std::vector<Cost> *message) {
  const Cost least = *std::min_element(message->begin(), message->end());
  for (Cost &c : *message) c = std::min(c - least, kMostMessage);
}

/// The same for minima over edges: impossible entries lead to sums near kNever; what is finite lies far below.
void cutBack(std::vector<Cost> *least) {
  const Cost low = *std::min_element(least->begin(), least->end());
  for (Cost &c : *least) c = c >= kNever / 2 ? kMostMessage : std::min(c - low, kMostMessage);
}

} // namespace

DualBounds::DualBounds(const PairGraph &graph, const CostTables &tables)
    : graph_(graph), tables_(tables), sides_(graph.unary.size()), weight_(graph.unary.size()),
      messages_(graph.edges.size() * 2) {
  const Incidence incidence(graph);
  for (uint32_t v = 0; v < graph.unary.size(); ++v) {
    int later = 0, earlier = 0;
    for (const uint32_t *e = incidence.begin(v); e != incidence.end(v); ++e) {
      const PairGraph::Edge &edge = graph.edges[*e];
      const bool second = edge.b == v;
      sides_[v].push_back({*e, edge.table, second, !second, second ? edge.a : edge.b});
      ++(second ? earlier : later);
    }
    weight_[v] = std::max({earlier, later, 1});
  }
  for (size_t e = 0; e < graph.edges.size(); ++e) {
    messages_[2 * e] = vectors_.zeros(graph.valuesOf(graph.edges[e].a, tables));
    messages_[2 * e + 1] = vectors_.zeros(graph.valuesOf(graph.edges[e].b, tables));
  }
}

const Factored &DualBounds::factored(uint32_t table) {
  if (factored_.size() <= table) factored_.resize(table + 1);
  if (!factored_[table]) factored_[table] = std::make_unique<Factored>(tables_[table]);
  return *factored_[table];
}

/// For each value the least of edge - message across.
uint32_t DualBounds::collected(const Side &s) {
  const uint32_t key[] = {s.table, s.second, across(s)};
  const uint32_t memo = takes_.id(key, 3);
  if (memo < takeResult_.size()) return takeResult_[memo];
  work_ += factored(s.table).size();
  std::vector<Cost> least;
  if (s.second)
    factored(s.table).leastByColumn(vectors_[across(s)].entries, &least);
  else
    factored(s.table).leastByRow(vectors_[across(s)].entries, &least);
  cutBack(&least);
  const uint32_t size = static_cast<uint32_t>(least.size());
  takeResult_.push_back(vectors_.intern({size}, std::move(least)));
  return takeResult_.back();
}

void DualBounds::gathered(uint32_t variable, std::vector<Cost> *values, std::vector<uint32_t> *taken) {
  *values = tables_[graph_.unary[variable]].entries;
  taken->clear();
  for (const Side &s : sides_[variable]) {
    taken->push_back(collected(s));
    const std::vector<Cost> &in = vectors_[taken->back()].entries;
    for (size_t x = 0; x < values->size(); ++x)
      if ((*values)[x] < kNever) (*values)[x] = std::min((*values)[x] + in[x], kMostSum);
  }
}

uint32_t DualBounds::visitKey(uint32_t variable, bool forward) {
  key_.assign({graph_.unary[variable], static_cast<uint32_t>(weight_[variable])});
  for (const Side &s : sides_[variable])
    key_.insert(key_.end(), {s.table, static_cast<uint32_t>(s.second) * 2 + (s.later == forward), across(s)});
  return visits_.id(key_);
}

void DualBounds::visit(uint32_t variable, bool forward) {
  const uint32_t memo = visitKey(variable, forward);
  const std::vector<Side> &sides = sides_[variable];
  if (memo == visitBegin_.size()) {
    std::vector<Cost> values, left;
    std::vector<uint32_t> taken;
    gathered(variable, &values, &taken);
    const Cost low = *std::min_element(values.begin(), values.end());
    const Cost weight = weight_[variable];
    work_ += 8 * values.size() * sides.size(); // adding, sharing and remembering the messages
    visitBegin_.push_back(static_cast<uint32_t>(visitResult_.size()));
    for (size_t i = 0; i < sides.size(); ++i) {
      uint32_t message = taken[i];
      if (sides[i].later == forward) {
        left = vectors_[message].entries;
        for (size_t x = 0; x < values.size(); ++x)
          left[x] -= (std::min(values[x], kMostSum) - low) / weight; // both are at least 0 above the least
        subtractLeast(&left);
        message = vectors_.intern({static_cast<uint32_t>(left.size())}, left);
      }
      visitResult_.push_back(message);
    }
  }
  const uint32_t *next = visitResult_.data() + visitBegin_[memo];
  for (const Side &s : sides) into(s) = *next++;
}

void DualBounds::compact() {
  CostTables fresh;
  for (uint32_t &m : messages_) m = fresh.intern(vectors_[m].dims, vectors_[m].entries);
  vectors_ = std::move(fresh);
  visits_ = {};
  takes_ = {};
  bounds_ = {};
  visitBegin_.clear();
  visitResult_.clear();
  takeResult_.clear();
  boundResult_.clear();
}

void DualBounds::pass(bool forward) {
  if (vectors_.entries() > kMostEntries) compact();
  const size_t n = sides_.size();
  for (size_t i = 0; i < n; ++i) visit(static_cast<uint32_t>(forward ? i : n - 1 - i), forward);
}

void DualBounds::sweep(int pairs) {
  for (int i = 0; i < pairs; ++i) {
    if (plain_) return sweepPlainly(pairs - i);
    const size_t before = visits_.size();
    pass(true);
    pass(false);
    plain_ = visits_.size() >= before + sides_.size(); // half of the visits were new
  }
}

/// The same passes on plain arrays, without remembering visits.
void DualBounds::sweepPlainly(int pairs) {
  std::vector<std::vector<Cost>> messages;
  messages.reserve(messages_.size());
  for (uint32_t m : messages_) messages.push_back(vectors_[m].entries);
  const size_t n = sides_.size();
  std::vector<Cost> values, share;
  for (int pass = 0; pass < 2 * pairs; ++pass)
    for (size_t i = 0; i < n; ++i) {
      const bool forward = pass % 2 == 0;
      const uint32_t v = static_cast<uint32_t>(forward ? i : n - 1 - i);
      values = tables_[graph_.unary[v]].entries;
      for (const Side &s : sides_[v]) {
        std::vector<Cost> &in = messages[2 * s.edge + (s.second ? 1 : 0)];
        const std::vector<Cost> &other = messages[2 * s.edge + (s.second ? 0 : 1)];
        const Factored &f = factored(s.table);
        work_ += f.size() + 4 * values.size();
        if (s.second)
          f.leastByColumn(other, &in);
        else
          f.leastByRow(other, &in);
        cutBack(&in);
        for (size_t x = 0; x < values.size(); ++x)
          values[x] = values[x] < kNever ? std::min(values[x] + in[x], kMostSum) : kNever;
      }
      const Cost low = *std::min_element(values.begin(), values.end());
      share.resize(values.size());
      for (size_t x = 0; x < values.size(); ++x) share[x] = (std::min(values[x], kMostSum) - low) / weight_[v];
      for (const Side &s : sides_[v]) {
        if (s.later != forward) continue;
        std::vector<Cost> &in = messages[2 * s.edge + (s.second ? 1 : 0)];
        for (size_t x = 0; x < values.size(); ++x) in[x] -= share[x];
        subtractLeast(&in);
      }
    }
  compact();
  for (size_t i = 0; i < messages_.size(); ++i) {
    const uint32_t size = static_cast<uint32_t>(messages[i].size());
    messages_[i] = vectors_.intern({size}, std::move(messages[i]));
  }
}

Cost DualBounds::bound() {
  passes_ = 0;
  Cost total = graph_.constant;
  std::vector<Cost> own;
  for (uint32_t v = 0; v < sides_.size(); ++v) {
    key_.assign({0, graph_.unary[v]});
    for (const Side &s : sides_[v]) key_.push_back(into(s));
    const uint32_t memo = bounds_.id(key_);
    if (memo == boundResult_.size()) {
      own = tables_[graph_.unary[v]].entries;
      for (const Side &s : sides_[v]) {
        const std::vector<Cost> &in = vectors_[into(s)].entries;
        for (size_t x = 0; x < own.size(); ++x)
          if (own[x] < kNever) own[x] = std::min(own[x] + in[x], kMostSum);
      }
      boundResult_.push_back(*std::min_element(own.begin(), own.end()));
    }
    total += boundResult_[memo];
  }
  for (size_t e = 0; e < graph_.edges.size(); ++e) {
    const uint32_t first = messages_[2 * e], second = messages_[2 * e + 1];
    key_.assign({1, graph_.edges[e].table, first, second});
    const uint32_t memo = bounds_.id(key_);
    if (memo == boundResult_.size()) {
      boundResult_.push_back(factored(graph_.edges[e].table).least(vectors_[first].entries, vectors_[second].entries));
    }
    total += boundResult_[memo];
  }
  return total;
}

std::vector<uint32_t> DualBounds::round() const {
  std::vector<uint32_t> values(sides_.size(), 0);
  std::vector<Cost> own;
  for (uint32_t v = 0; v < sides_.size(); ++v) {
    own = tables_[graph_.unary[v]].entries;
    for (const Side &s : sides_[v]) {
      const CostTables::Table &t = tables_[s.table];
      const std::vector<Cost> &in = vectors_[into(s)].entries;
      for (size_t x = 0; x < own.size(); ++x)
        own[x] = addCosts(own[x], s.later ? in[x] : entryOf(t, s.second, x, values[s.other]));
    }
    values[v] = static_cast<uint32_t>(std::min_element(own.begin(), own.end()) - own.begin());
  }
  return values;
}

std::vector<uint32_t> DualBounds::within(Cost slack, SequenceIndex *lists) {
  // Passes do not lower the bound, but for what their rounding costs: less than one unit for each end of an edge.
  ++passes_;
  const Cost allowed = slack + passes_ * 2 * static_cast<Cost>(graph_.edges.size());
  std::vector<uint32_t> kept(sides_.size()), results, list, taken;
  std::vector<Cost> values;
  for (uint32_t v = 0; v < sides_.size(); ++v) {
    const uint32_t memo = visitKey(v, true);
    if (results.size() <= memo) results.resize(memo + 1, UINT32_MAX);
    if (results[memo] == UINT32_MAX) {
      gathered(v, &values, &taken);
      const Cost low = *std::min_element(values.begin(), values.end());
      list.clear();
      for (uint32_t x = 0; x < values.size(); ++x)
        if (values[x] < kNever && values[x] - low <= allowed) list.push_back(x);
      results[memo] = lists->id(list);
    }
    kept[v] = results[memo];
    visit(v, true);
  }
  return kept;
}

} // namespace opc::planner
