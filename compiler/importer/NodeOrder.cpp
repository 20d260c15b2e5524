// The order of the ops of a graph file.
// SPDX-License-Identifier: Apache-2.0
#include "GraphNodes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace opc {
namespace {

class NodeOrder {
public:
  explicit NodeOrder(GraphNodes *graph) : graph_(*graph), nodes_(graph->nodes) {}

  std::vector<uint32_t> run() {
    if (!findLevels()) return {};
    const size_t n = nodes_.size();
    std::vector<uint32_t> ends;
    for (uint32_t i = 0; i < n; ++i)
      if (!hasReader_[i]) ends.push_back(i);
    findColors(ends);
    for (auto &[writer, reads] : earlierReads_)
      std::stable_sort(reads.begin(), reads.end(), [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
    std::stable_sort(ends.begin(), ends.end(), [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
    placed_.resize(n);
    keyed_.resize(n);
    keys_.resize(n);
    if (graph_.file.keepsInterface) placeInterface(&ends);
    for (size_t first = 0, last; first < ends.size(); first = last) {
      for (last = first + 1; last < ends.size() && rank(ends[last]) == rank(ends[first]);) ++last;
      if (last - first > 1) sortEqual(ends.data() + first, ends.data() + last);
      for (size_t k = first; k < last; ++k) place(ends[k]);
    }
    return std::move(order_);
  }

private:
  /// Rounds of colouring. Two tell apart what people write; a graph can be made that needs one for each op.
  static constexpr int kMostRounds = 16;
  /// As what an op comes before another that writes a variable that it reads.
  static constexpr uint64_t kEarlierRead = 1;

  /// The i-th of the ops that come before one: makers of what it reads, those that control orders, and what reads a
  /// variable before it is written. -1 after the last.
  int before(uint32_t op, size_t i) const {
    const Node &node = nodes_[op];
    if (i < node.inputs.size()) return node.inputs[i].first;
    i -= node.inputs.size();
    if (i < node.controls.size()) return node.controls[i];
    i -= node.controls.size();
    const auto reads = earlierReads_.find(op);
    return reads != earlierReads_.end() && i < reads->second.size() ? static_cast<int>(reads->second[i]) : -1;
  }

  /// An op that writes variables and that nobody reads comes after what reads them: that shall see the old value. Where
  /// several may write a variable nothing is said, which also bounds what is said.
  void findEarlierReads(const std::vector<std::vector<uint32_t>> &readers) {
    auto writes = [&](uint32_t op) { return readers[op].empty() && nodes_[op].def && nodes_[op].def->modifyInputs; };
    for (uint32_t v = 0; v < nodes_.size(); ++v) {
      if (!nodes_[v].conf->has_variable_conf() || std::count_if(readers[v].begin(), readers[v].end(), writes) != 1)
        continue;
      std::vector<uint32_t> &reads = earlierReads_[*std::find_if(readers[v].begin(), readers[v].end(), writes)];
      std::copy_if(readers[v].begin(), readers[v].end(), std::back_inserter(reads), std::not_fn(writes));
    }
  }

  /// The longest way to each op; false for a cycle.
  bool findLevels() {
    const size_t n = nodes_.size();
    std::vector<uint32_t> pending(n, 0);
    std::vector<std::vector<uint32_t>> readers(n);
    for (uint32_t i = 0; i < n; ++i)
      for (int b; (b = before(i, pending[i])) >= 0; ++pending[i]) readers[static_cast<size_t>(b)].push_back(i);
    findEarlierReads(readers);
    hasReader_.resize(n);
    for (uint32_t i = 0; i < n; ++i) hasReader_[i] = !readers[i].empty();
    for (const auto &[writer, reads] : earlierReads_) {
      pending[writer] += static_cast<uint32_t>(reads.size());
      for (uint32_t r : reads) readers[r].push_back(writer);
    }
    level_.assign(n, 0);
    for (uint32_t i = 0; i < n; ++i) {
      if (!pending[i]) sorted_.push_back(i);
    }
    for (size_t k = 0; k < sorted_.size(); ++k)
      for (uint32_t r : readers[sorted_[k]]) {
        level_[r] = std::max(level_[r], level_[sorted_[k]] + 1);
        if (--pending[r] == 0) sorted_.push_back(r);
      }
    if (sorted_.size() != n) reportCycle(pending);
    return sorted_.size() == n;
  }

  /// Of the ops that nobody reads, the nearest to the sources come first; those alike lie together. What only numbers
  /// tell apart comes last: another learning rate does not exchange the updates of a graph, and with them what is
  /// fused.
  using Rank = std::tuple<uint32_t, uint64_t, uint64_t>;
  Rank rank(uint32_t end) const { return {level_[end], kinds_[end], colors_[end]}; }

  /// A number for what each op is in the graph: what it computes, from what, and who reads that and what it came from.
  /// Ops of one number are alike, but for contrived graphs. Only as far as needed to tell the ends apart.
  void findColors(const std::vector<uint32_t> &ends) {
    kinds_.resize(nodes_.size());
    colors_.resize(nodes_.size());
    std::vector<uint32_t> levels, told = ends; // told apart are the ends, and what one writer comes after
    for (uint32_t end : ends) levels.push_back(level_[end]);
    std::sort(levels.begin(), levels.end());
    if (earlierReads_.empty() && std::adjacent_find(levels.begin(), levels.end()) == levels.end()) return;
    for (const auto &[writer, reads] : earlierReads_) told.insert(told.end(), reads.begin(), reads.end());
    if (color(told, false) == told.size()) return;
    kinds_.swap(colors_);
    color(told, true);
  }

  /// Colours all ops, until those that are to be told apart are or no round tells more apart; into how many kinds.
  size_t color(const std::vector<uint32_t> &told, bool withNumbers) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) colors_[i] = contents(nodes_[i], withNumbers);
    colorByMakers();
    size_t kinds = countKinds(told), before = 0;
    for (int round = 0; round < kMostRounds && kinds > before && kinds < told.size(); ++round) {
      colorByReaders();
      colorByMakers();
      before = std::exchange(kinds, countKinds(told));
    }
    return kinds;
  }

  size_t countKinds(const std::vector<uint32_t> &ops) const {
    std::vector<Rank> ranks;
    for (uint32_t op : ops) ranks.push_back(rank(op));
    std::sort(ranks.begin(), ranks.end());
    return static_cast<size_t>(std::unique(ranks.begin(), ranks.end()) - ranks.begin());
  }

  void colorByMakers() {
    for (uint32_t i : sorted_) {
      uint64_t earlier = 0; // a sum: reads before a write have no order
      forEachBefore(i, [&](uint32_t b, uint64_t as) {
        if (as == kEarlierRead)
          earlier += mix(as, colors_[b]);
        else
          colors_[i] = mix(mix(colors_[i], as), colors_[b]);
      });
      colors_[i] = mix(colors_[i], earlier);
    }
  }

  void colorByReaders() {
    std::vector<uint64_t> readers(nodes_.size(), 0); // sums: readers have no order
    for (size_t s = sorted_.size(); s-- > 0;) {
      const uint32_t i = sorted_[s];
      colors_[i] = mix(colors_[i], readers[i]);
      forEachBefore(i, [&](uint32_t b, uint64_t as) { readers[b] += mix(colors_[i], as); });
    }
  }

  /// f(b, as what) for each op b that comes before one, and what it is to that one.
  template <class F> void forEachBefore(uint32_t op, F &&f) const {
    const Node &node = nodes_[op];
    const size_t ordered = node.inputs.size() + node.controls.size();
    int b;
    for (size_t k = 0; (b = before(op, k)) >= 0; ++k)
      f(static_cast<uint32_t>(b),
        k >= ordered ? kEarlierRead
                     : mix(k, k < node.inputs.size() ? static_cast<uint64_t>(node.inputs[k].second) : ~uint64_t{0}));
  }

  static uint64_t mix(uint64_t a, uint64_t b) {
    a ^= b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2);
    a = (a ^ (a >> 32)) * 0xD6E8FEB86659FD93u;
    return a ^ (a >> 32);
  }
  static uint64_t mix(uint64_t d, std::string_view bytes) {
    for (char c : bytes) d = (d ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
    return mix(d, bytes.size());
  }

  static bool isNumber(const AttrValue &value) {
    return value.get<float>() || value.get<double>() || value.get<std::vector<float>>();
  }

  /// What an op says of itself; names are left out, and without `withNumbers` what decides nothing but values.
  static uint64_t contents(const Node &node, bool withNumbers) {
    const graph::OperatorConf &conf = *node.conf;
    uint64_t d = mix(static_cast<uint64_t>(conf.op_type_case()), node.user.type);
    d = mix(d, conf.calculation_pass_name());
    for (const auto &[name, value] : node.user.attrs)
      d = mix(mix(d, name), withNumbers || !isNumber(value) ? value.toString() : "");
    for (const auto &b : node.user.inputs) d = mix(mix(d, b.name), b.tensors.size());
    if (conf.has_input_conf()) return mix(d, conf.input_conf().blob_conf().SerializeAsString());
    if (conf.has_output_conf()) return mix(d, conf.output_conf().blob_conf().SerializeAsString());
    if (!conf.has_variable_conf()) return d;
    graph::VariableOpConf variable = conf.variable_conf();
    variable.clear_out();
    if (!withNumbers) {
      variable.clear_initialize();
      variable.clear_random_seed();
      variable.clear_regularizer();
    }
    return mix(d, variable.SerializeAsString());
  }

  /// Ends that are alike as long as nothing is placed: first the one whose sources were placed first. What is alike
  /// even then can change places, and stays as the file has it.
  void sortEqual(uint32_t *first, uint32_t *last) {
    for (const uint32_t *end = first; end != last; ++end)
      walk(*end, &keyed_, [&](uint32_t op) {
        auto &[earliest, sources] = keys_[op];
        earliest = UINT32_MAX;
        forEachBefore(op, [&](uint32_t b, uint64_t) {
          earliest = std::min(earliest, keys_[b].first);
          sources = mix(sources, keys_[b].second);
        });
      });
    std::stable_sort(first, last, [&](uint32_t a, uint32_t b) { return keys_[a] < keys_[b]; });
  }

  /// The inputs and outputs as the file has them, and what each output needs; leaves of `ends` the rest.
  void placeInterface(std::vector<uint32_t> *ends) {
    for (uint32_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].conf->has_input_conf()) place(i);
    for (uint32_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].conf->has_output_conf()) place(i);
    std::erase_if(*ends, [&](uint32_t end) { return placed_[end]; });
  }

  void place(uint32_t end) {
    walk(end, &placed_, [&](uint32_t op) {
      keys_[op] = {static_cast<uint32_t>(order_.size()), order_.size()};
      keyed_[op] = true;
      order_.push_back(op);
    });
  }

  /// Calls `then` for each op that `end` depends on and for `end` itself, unless it was seen: depth first, arguments in
  /// their order.
  template <class F> void walk(uint32_t end, std::vector<bool> *seen, F &&then) {
    if ((*seen)[end]) return;
    (*seen)[end] = true;
    std::vector<std::pair<uint32_t, size_t>> stack = {{end, 0}};
    while (!stack.empty()) {
      auto &[op, next] = stack.back();
      const int b = before(op, next++);
      if (b < 0) {
        then(op);
        stack.pop_back();
      } else if (!(*seen)[static_cast<size_t>(b)]) {
        (*seen)[static_cast<size_t>(b)] = true;
        stack.push_back({static_cast<uint32_t>(b), 0});
      }
    }
  }

  void reportCycle(const std::vector<uint32_t> &pending) {
    const size_t n = nodes_.size();
    // Walk backwards through ops that still wait: the walk must close.
    uint32_t at = 0;
    while (!pending[at]) ++at;
    std::vector<uint32_t> path;
    std::vector<bool> seen(n, false);
    while (!seen[at]) {
      seen[at] = true;
      path.push_back(at);
      std::vector<int> waitsFor = nodes_[at].controls;
      for (const auto &in : nodes_[at].inputs) waitsFor.push_back(in.first);
      // What writes a variable waits for those that read it before.
      for (const auto &[writer, reads] : earlierReads_)
        if (writer == at) waitsFor.insert(waitsFor.end(), reads.begin(), reads.end());
      for (int before : waitsFor)
        if (before >= 0 && pending[static_cast<size_t>(before)]) {
          at = static_cast<uint32_t>(before);
          break;
        }
    }
    std::string text = nodes_[at].conf->name();
    for (size_t k = path.size(); k-- > 0 && path[k] != at;) text += " -> " + nodes_[path[k]].conf->name();
    graph_.error(static_cast<int>(at), "OPC0108", "the ops form a cycle: " + text + " -> " + nodes_[at].conf->name(),
                 "a graph is static and acyclic: break the cycle with a variable");
  }

  GraphNodes &graph_;
  const std::vector<Node> &nodes_;
  std::vector<uint32_t> sorted_, order_; // topological orders: any, and the one that is asked for
  std::vector<uint32_t> level_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> earlierReads_;
  std::vector<uint64_t> kinds_, colors_;            // without numbers; with them, or 0 where the kinds tell all apart
  std::vector<std::pair<uint32_t, uint64_t>> keys_; // of what is placed, its position; else where its sources are
  std::vector<bool> hasReader_, placed_, keyed_;
};

} // namespace

std::vector<uint32_t> sortNodes(GraphNodes *graph) { return NodeOrder(graph).run(); }

} // namespace opc
