// Min-plus elimination of variables.
// SPDX-License-Identifier: Apache-2.0
#include "Elimination.h"

#include <algorithm>

namespace opc::planner {
namespace {

constexpr uint64_t kSaturated = UINT64_MAX;
// A variable with more factors than this waits until its neighbours are gone: weighing it would cost more than it
// tells.
constexpr size_t kManyFactors = 24;
constexpr size_t kMostNeighbours = 60;
// Entries of tables in memory, all together.
constexpr uint64_t kMostHeld = uint64_t{1} << 27;

uint64_t product(uint64_t a, uint64_t b) { return b != 0 && a > (uint64_t{1} << 62) / b ? kSaturated : a * b; }

int count(uint64_t bits) { return __builtin_popcountll(bits); }

/// A factor of the variable that goes, with its strides; its last neighbour is contiguous where it is the last of all.
struct Source {
  const Cost *data;
  size_t own;                  // stride of the variable
  bool last;                   // depends on the last neighbour
  std::vector<size_t> strides; // by neighbour, 0 where it has none
  size_t at;
};

/// The strides of a table whose axes are the neighbours in `members` (bit i: neighbour i, of dims[i] values), with the
/// variable of `values` values after those below `before`. A table with the variable as its last axis is copied to
/// `copy`, with that axis first.
Source sourceOf(const std::vector<Cost> &entries, uint64_t members, uint32_t before, size_t values,
                const std::vector<uint32_t> &dims, std::vector<Cost> *copy) {
  const size_t arity = dims.size();
  const int arityHere = count(members);
  const int axis = count(members & ((uint64_t{1} << before) - 1)); // of the variable
  Source s{entries.data(), 1, arity > 0 && (members >> (arity - 1) & 1), std::vector<size_t>(arity, 0), 0};
  size_t stride = 1;
  if (arityHere > 0 && axis == arityHere) { // the variable is the last axis: put it first
    const size_t rest = entries.size() / values;
    copy->resize(entries.size());
    for (size_t r = 0; r < rest; ++r)
      for (size_t x = 0; x < values; ++x) (*copy)[x * rest + r] = entries[r * values + x];
    s.data = copy->data();
    s.own = rest;
    for (size_t i = arity; i-- > 0;)
      if (members >> i & 1) {
        s.strides[i] = stride;
        stride *= dims[i];
      }
    return s;
  }
  int at = arityHere;
  for (size_t i = arity;; --i) {
    if (at == axis) { // the variable comes after neighbour i - 1
      s.own = stride;
      stride *= values;
      --at;
    }
    if (i == 0) return s;
    if (members >> (i - 1) & 1) {
      s.strides[i - 1] = stride;
      stride *= dims[i - 1];
      --at;
    }
  }
}

/// The best value of the variable for each value of the last neighbour, the others fixed.
class RowMinimum {
public:
  RowMinimum(const std::vector<Source> &sources, size_t values, size_t inner)
      : sources_(sources), values_(values), rows_(sources.size()), sum_(inner) {}

  void operator()(Cost *out, uint16_t *decision) {
    const size_t inner = sum_.size();
    for (size_t x = 0; x < values_; ++x) {
      Cost fixed = 0;
      size_t wide = 0;
      for (const Source &s : sources_) {
        const Cost *from = s.data + s.at + x * s.own;
        if (s.last)
          rows_[wide++] = from;
        else
          fixed = addCosts(fixed, *from);
      }
      if (fixed >= kNever) continue;
      const uint16_t value = static_cast<uint16_t>(x);
      const Cost *only = wide == 1 ? rows_[0] : nullptr;
      if (wide > 1) { // no more than three impossible costs are added before the sum is cut back
        for (size_t j = 0; j < inner; ++j) sum_[j] = rows_[0][j] + rows_[1][j];
        for (size_t r = 2; r < wide; ++r)
          for (size_t j = 0; j < inner; ++j) sum_[j] = addCosts(sum_[j], rows_[r][j]);
        only = sum_.data();
      }
      for (size_t j = 0; j < inner; ++j) {
        const Cost c = fixed + (only ? only[j] : 0);
        if (c < out[j]) {
          out[j] = c;
          decision[j] = value;
        }
      }
    }
  }

private:
  const std::vector<Source> &sources_;
  size_t values_;
  std::vector<const Cost *> rows_;
  std::vector<Cost> sum_;
};

} // namespace

Elimination::Elimination(const PairGraph &graph, CostTables *tables, EliminationMemo *memo)
    : tables_(tables), memo_(memo), size_(graph.unary.size()), of_(graph.unary.size()),
      gone_(graph.unary.size(), false), stamp_(graph.unary.size(), 0), constant_(graph.constant),
      left_(graph.unary.size()) {
  factors_.reserve(graph.edges.size() * 2);
  scopes_.reserve(graph.edges.size() * 4);
  for (uint32_t v = 0; v < size_.size(); ++v) {
    size_[v] = graph.valuesOf(v, *tables);
    if (!(*tables)[graph.unary[v]].zero) addFactor(graph.unary[v], {v});
  }
  for (const PairGraph::Edge &e : graph.edges)
    if (!(*tables)[e.table].zero) addFactor(e.table, {e.a, e.b});
}

void Elimination::addFactor(uint32_t table, const std::vector<uint32_t> &scope) {
  uint32_t fewest = scope[0];
  for (uint32_t v : scope)
    if (of_[v].size() < of_[fewest].size()) fewest = v;
  for (uint32_t f : of_[fewest]) {
    Factor &factor = factors_[f];
    if (factor.arity == scope.size() && std::equal(scope.begin(), scope.end(), scopes_.begin() + factor.scope)) {
      factor.table = tables_->sum(factor.table, table);
      return;
    }
  }
  const uint32_t id = static_cast<uint32_t>(factors_.size());
  factors_.push_back({table, static_cast<uint32_t>(scopes_.size()), static_cast<uint32_t>(scope.size()), true});
  scopes_.insert(scopes_.end(), scope.begin(), scope.end());
  for (uint32_t v : scope) of_[v].push_back(id);
}

void Elimination::removeFactor(uint32_t factor) {
  Factor &f = factors_[factor];
  f.alive = false;
  for (uint32_t i = 0; i < f.arity; ++i) {
    std::vector<uint32_t> &list = of_[scopes_[f.scope + i]];
    list.erase(std::find(list.begin(), list.end(), factor));
  }
}

void Elimination::gather(uint32_t variable) {
  neighbours_.clear();
  for (uint32_t f : of_[variable])
    for (uint32_t i = 0; i < factors_[f].arity; ++i) {
      const uint32_t v = scopes_[factors_[f].scope + i];
      if (v != variable && std::find(neighbours_.begin(), neighbours_.end(), v) == neighbours_.end())
        neighbours_.push_back(v);
    }
  std::sort(neighbours_.begin(), neighbours_.end());
}

void Elimination::weigh(uint32_t variable) {
  const uint32_t stamp = ++stamp_[variable];
  if (size_[variable] > 1 && of_[variable].size() > kManyFactors) return;
  uint64_t weight = size_[variable];
  if (weight == 1) {
    weight = 0; // fixed: it goes first, factor by factor
  } else {
    gather(variable);
    if (neighbours_.size() > arityLimit_ || neighbours_.size() > kMostNeighbours) return;
    for (uint32_t v : neighbours_) weight = product(weight, size_[v]);
  }
  heap_.push_back({weight, variable, stamp});
  std::push_heap(heap_.begin(), heap_.end());
}

void Elimination::run(const Limits &limits) {
  arityLimit_ = limits.arity;
  heap_.clear();
  for (uint32_t v = 0; v < size_.size(); ++v)
    if (!gone_[v]) weigh(v);
  while (!heap_.empty() && !infeasible_) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Entry e = heap_.back();
    heap_.pop_back();
    if (gone_[e.variable] || stamp_[e.variable] != e.stamp) continue;
    if (e.weight == 0 ? !fixSingle(e.variable) : !eliminate(e.variable, limits)) break;
  }
}

bool Elimination::fixSingle(uint32_t variable) {
  // The decision is value 0 and needs no step: values start at 0 in decode.
  const std::vector<uint32_t> mine = of_[variable];
  std::vector<uint32_t> touched;
  for (uint32_t f : mine) {
    const Factor factor = factors_[f];
    std::vector<uint32_t> scope;
    uint32_t axis = 0;
    for (uint32_t i = 0; i < factor.arity; ++i) {
      const uint32_t v = scopes_[factor.scope + i];
      if (v == variable)
        axis = i;
      else
        scope.push_back(v);
    }
    removeFactor(f);
    if (scope.empty()) {
      constant_ = addCosts(constant_, (*tables_)[factor.table].entries[0]);
      continue;
    }
    const uint32_t table = tables_->slice(factor.table, axis, 0);
    if (!(*tables_)[table].zero) addFactor(table, scope);
    touched.insert(touched.end(), scope.begin(), scope.end());
  }
  gone_[variable] = true;
  --left_;
  done_.push_back({variable, UINT32_MAX, 0, 0});
  if (constant_ >= kNever) {
    infeasible_ = true;
    blamed_ = variable;
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (uint32_t v : touched) weigh(v);
  return true;
}

bool Elimination::eliminate(uint32_t variable, const Limits &limits) {
  gather(variable);
  before_ =
      static_cast<uint32_t>(std::lower_bound(neighbours_.begin(), neighbours_.end(), variable) - neighbours_.begin());
  uint64_t result = 1;
  for (uint32_t v : neighbours_) result = product(result, size_[v]);
  if (result > limits.table) return true; // not now; it comes back when a neighbour has gone
  parts_.clear();
  for (uint32_t f : of_[variable]) {
    uint64_t members = 0;
    for (uint32_t i = 0; i < factors_[f].arity; ++i) {
      const uint32_t v = scopes_[factors_[f].scope + i];
      if (v == variable) continue;
      members |= uint64_t{1} << (std::lower_bound(neighbours_.begin(), neighbours_.end(), v) - neighbours_.begin());
    }
    parts_.push_back({members, factors_[f].table});
  }
  std::sort(parts_.begin(), parts_.end());
  key_.assign({size_[variable], before_});
  for (const Part &p : parts_)
    key_.insert(key_.end(), {p.table, static_cast<uint32_t>(p.members), static_cast<uint32_t>(p.members >> 32)});
  const uint32_t id = memo_->keys.id(key_);
  if (id >= memo_->steps.size()) memo_->steps.resize(id + 1);
  EliminationMemo::Step *step = &memo_->steps[id];
  if (step->decisions.empty()) {
    if (memo_->work + product(result, size_[variable]) > limits.work) return false;
    if (tables_->entries() + memo_->decided / 4 + result > kMostHeld) return false;
    EliminationMemo::Step fresh = compute(variable);
    memo_->work += product(result, size_[variable]);
    memo_->decided += fresh.decisions.size();
    *step = std::move(fresh);
  }

  const std::vector<uint32_t> scope = neighbours_;
  while (!of_[variable].empty()) removeFactor(of_[variable].back());
  gone_[variable] = true;
  --left_;
  done_.push_back({variable, id, static_cast<uint32_t>(scopes_.size()), static_cast<uint32_t>(scope.size())});
  scopes_.insert(scopes_.end(), scope.begin(), scope.end());
  if (step->infeasible) {
    infeasible_ = true;
    blamed_ = variable;
    return true;
  }
  constant_ = addCosts(constant_, step->offset);
  if (step->table != UINT32_MAX) addFactor(step->table, scope);
  for (uint32_t v : scope) weigh(v);
  return true;
}

EliminationMemo::Step Elimination::compute(uint32_t variable) const {
  const size_t arity = neighbours_.size(), values = size_[variable];
  std::vector<uint32_t> dims(arity);
  size_t total = 1;
  for (size_t i = 0; i < arity; ++i) total *= dims[i] = size_[neighbours_[i]];
  std::vector<std::vector<Cost>> copies(parts_.size());
  std::vector<Source> sources;
  for (size_t p = 0; p < parts_.size(); ++p)
    sources.push_back(
        sourceOf((*tables_)[parts_[p].table].entries, parts_[p].members, before_, values, dims, &copies[p]));

  const size_t inner = arity > 0 ? dims[arity - 1] : 1;
  std::vector<Cost> best(total, kNever);
  EliminationMemo::Step step;
  step.decisions.assign(total, 0);
  std::vector<uint32_t> at(arity, 0);
  RowMinimum minimum(sources, values, inner);
  for (size_t base = 0; base < total; base += inner) {
    minimum(best.data() + base, step.decisions.data() + base);
    for (size_t i = arity > 0 ? arity - 1 : 0; i-- > 0;) { // the next row
      const bool carry = ++at[i] == dims[i];
      for (Source &s : sources) s.at = carry ? s.at - s.strides[i] * (dims[i] - 1) : s.at + s.strides[i];
      if (!carry) break;
      at[i] = 0;
    }
  }

  step.offset = *std::min_element(best.begin(), best.end());
  step.infeasible = step.offset >= kNever;
  if (step.infeasible || arity == 0) return step;
  bool zero = true;
  for (Cost &c : best) {
    if (c < kNever) c -= step.offset;
    zero &= c == 0;
  }
  if (!zero) step.table = tables_->intern(std::move(dims), std::move(best));
  return step;
}

PairGraph Elimination::rest(std::vector<uint32_t> *variables) const {
  PairGraph graph;
  graph.constant = constant_;
  variables->clear();
  std::vector<uint32_t> number(size_.size(), UINT32_MAX);
  for (uint32_t v = 0; v < size_.size(); ++v) {
    if (gone_[v]) continue;
    number[v] = static_cast<uint32_t>(variables->size());
    variables->push_back(v);
    graph.unary.push_back(tables_->zeros(size_[v]));
  }
  for (const Factor &f : factors_) {
    if (!f.alive) continue;
    if (f.arity == 1)
      graph.unary[number[scopes_[f.scope]]] = f.table;
    else
      graph.edges.push_back({number[scopes_[f.scope]], number[scopes_[f.scope + 1]], f.table});
  }
  return graph;
}

void Elimination::decode(std::vector<uint32_t> *values) const {
  for (size_t i = done_.size(); i-- > 0;) {
    const Done &d = done_[i];
    if (d.step == UINT32_MAX) {
      (*values)[d.variable] = 0;
      continue;
    }
    size_t index = 0;
    for (uint32_t k = 0; k < d.arity; ++k) {
      const uint32_t v = scopes_[d.scope + k];
      index = index * size_[v] + (*values)[v];
    }
    (*values)[d.variable] = memo_->steps[d.step].decisions[index];
  }
}

} // namespace opc::planner
