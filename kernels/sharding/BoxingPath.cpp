// The cheapest steps between two states: shortest paths over the legal states of a tensor.
// SPDX-License-Identifier: Apache-2.0
#include "Boxing.h"
#include "BoxingCost.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace opc {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The states of one tensor on one placement, and what changing them costs.
class StateGraph {
public:
  StateGraph(const Shape &shape, DataType type, const Placement &placement, const MeshLinks &links,
             const std::vector<NdSbp> &more)
      : shape_(shape), elementSize_(GetSizeOfDataType(type)), placement_(placement), links_(links),
        states_(legalStates(shape, type, placement.dims)) {
    for (size_t i = 0; i < states_.size(); ++i) index_.emplace(code(states_[i]), static_cast<int>(i));
    for (const NdSbp &s : more)
      if (index_.emplace(code(s), static_cast<int>(states_.size())).second) states_.push_back(s);
    for (const NdSbp &s : states_) partial_.push_back(hasPartial(s));
    connect();
    exchanges_.resize(states_.size());
  }

  int indexOf(const NdSbp &s) const { return index_.at(code(s)); }
  const std::vector<NdSbp> &states() const { return states_; }
  bool partial(int i) const { return partial_[static_cast<size_t>(i)]; }

  struct Paths {
    std::vector<double> seconds;
    std::vector<int> steps, before;
  };
  /// Shortest paths from a state to all. Ties: fewer steps, then the earlier state before.
  Paths from(int source) { return search(static_cast<size_t>(source), true); }

  /// The steps of a path to a state, in order.
  std::vector<BoxingStep> steps(const Paths &paths, int target) const {
    std::vector<BoxingStep> list;
    for (int at = target; paths.before[static_cast<size_t>(at)] >= 0; at = paths.before[static_cast<size_t>(at)]) {
      const NdSbp &a = states_[static_cast<size_t>(paths.before[static_cast<size_t>(at)])];
      const NdSbp &b = states_[static_cast<size_t>(at)];
      const auto step = collectiveStep(a, b, placement_.dims);
      list.push_back(step ? *step : BoxingStep{BoxingKind::kExchange, -1, a, b, BoxingReduction::kSum});
    }
    std::reverse(list.begin(), list.end());
    return list;
  }

private:
  struct Edge {
    int to;
    double seconds;
  };

  /// A number for a state: axes are below kMaxRank.
  static uint64_t digit(const SbpParallel &s) {
    return s.has_split_parallel() ? 2 + static_cast<uint64_t>(s.axis()) : s.has_broadcast_parallel() ? 0 : 1;
  }
  static uint64_t code(const NdSbp &s) {
    uint64_t c = 0;
    for (const SbpParallel &p : s) c = c * (kMaxRank + 2) + digit(p);
    return c;
  }

  void connect() {
    std::vector<SbpParallel> one{SbpParallel::broadcast(), SbpParallel::partialSum()};
    for (int64_t a = 0; a < shape_.NumAxes(); ++a) one.push_back(SbpParallel::split(a));
    edges_.resize(states_.size());
    for (size_t i = 0; i < states_.size(); ++i) {
      NdSbp next = states_[i];
      for (size_t m = 0; m < next.size(); ++m) {
        for (const SbpParallel &s : one) {
          if (s == states_[i][m]) continue;
          next[m] = s;
          const auto it = index_.find(code(next));
          if (it == index_.end()) continue;
          const auto step = collectiveStep(states_[i], next, placement_.dims);
          if (step)
            edges_[i].push_back({it->second, collectiveSeconds(*step, shape_, elementSize_, placement_.dims, links_)});
        }
        next[m] = states_[i][m];
      }
    }
  }

  /// The exchanges from a state that beat all paths of collectives.
  const std::vector<Edge> &exchangesFrom(size_t a) {
    if (exchanges_[a]) return *exchanges_[a];
    std::vector<Edge> edges;
    if (!partial_[a]) {
      if (!exchangeCosts_)
        exchangeCosts_.emplace(shape_, elementSize_, states_, placement_, states_, placement_, links_);
      const Paths plain = search(a, false);
      for (size_t b = 0; b < states_.size(); ++b) {
        if (b == a || partial_[b] || isCollective(states_[a], states_[b], placement_.dims)) continue;
        const double limit = plain.seconds[b] * (1 - 1e-9);
        if (exchangeCosts_->atLeast(a, b) >= limit) continue;
        const double seconds = exchangeCosts_->seconds(a, b);
        if (seconds < limit) edges.push_back({static_cast<int>(b), seconds});
      }
    }
    return exchanges_[a].emplace(std::move(edges));
  }

  /// Dijkstra's algorithm, along collectives alone or exchanges too.
  Paths search(size_t source, bool exchanges) {
    const size_t n = states_.size();
    Paths paths{std::vector<double>(n, kInfinity), std::vector<int>(n, 0), std::vector<int>(n, -1)};
    paths.seconds[source] = 0;
    std::vector<int> open{static_cast<int>(source)}; // reached and not done
    std::vector<bool> done(n, false);
    while (!open.empty()) {
      size_t best = 0;
      for (size_t i = 1; i < open.size(); ++i) {
        const auto a = static_cast<size_t>(open[i]), b = static_cast<size_t>(open[best]);
        if (std::tie(paths.seconds[a], paths.steps[a], open[i]) <
            std::tie(paths.seconds[b], paths.steps[b], open[best]))
          best = i;
      }
      const auto at = static_cast<size_t>(open[best]);
      open[best] = open.back();
      open.pop_back();
      done[at] = true;
      auto relax = [&](const std::vector<Edge> &edges) {
        for (const Edge &e : edges) {
          const auto to = static_cast<size_t>(e.to);
          const double total = paths.seconds[at] + e.seconds;
          const int steps = paths.steps[at] + 1, before = static_cast<int>(at);
          if (done[to] ||
              std::tie(total, steps, before) >= std::tie(paths.seconds[to], paths.steps[to], paths.before[to]))
            continue;
          if (paths.before[to] < 0) open.push_back(e.to);
          paths.seconds[to] = total;
          paths.steps[to] = steps;
          paths.before[to] = before;
        }
      };
      relax(edges_[at]);
      if (exchanges) relax(exchangesFrom(at));
    }
    return paths;
  }

  const Shape &shape_;
  size_t elementSize_;
  const Placement &placement_;
  const MeshLinks &links_;
  std::vector<NdSbp> states_;
  std::unordered_map<uint64_t, int> index_;
  std::vector<bool> partial_;
  std::vector<std::vector<Edge>> edges_;
  std::optional<ExchangeCosts> exchangeCosts_;
  std::vector<std::optional<std::vector<Edge>>> exchanges_; // when asked for
};

} // namespace

std::vector<BoxingStep> boxingPath(const Shape &shape, DataType type, const NdSbp &from, const NdSbp &to,
                                   const Placement &placement, const MeshLinks &links) {
  if (from == to) return {};
  StateGraph graph(shape, type, placement, links, {from, to});
  const StateGraph::Paths paths = graph.from(graph.indexOf(from));
  return graph.steps(paths, graph.indexOf(to));
}

std::vector<BoxingOp> boxingPath(const Shape &shape, DataType type, const NdSbp &from, const Placement &source,
                                 const NdSbp &to, const Placement &target, const MeshLinks &sourceLinks,
                                 const MeshLinks &targetLinks) {
  std::vector<BoxingOp> ops;
  auto add = [&](const std::vector<BoxingStep> &steps, const Placement &placement) {
    for (const BoxingStep &s : steps) ops.push_back({s, shape, type, placement, placement});
  };
  if (source == target) {
    add(boxingPath(shape, type, from, to, source, sourceLinks), source);
    return ops;
  }
  StateGraph here(shape, type, source, sourceLinks, {from}), there(shape, type, target, targetLinks, {to});
  const StateGraph::Paths before = here.from(here.indexOf(from));
  const int end = there.indexOf(to);
  MeshLinks links = sourceLinks; // the slower of the two ends counts
  links.between.latency = std::max(links.between.latency, targetLinks.between.latency);
  links.between.bandwidth = std::min(links.between.bandwidth, targetLinks.between.bandwidth);

  std::vector<StateGraph::Paths> after(there.states().size());
  for (size_t b = 0; b < after.size(); ++b)
    if (!there.partial(static_cast<int>(b))) after[b] = there.from(static_cast<int>(b));
  ExchangeCosts cost(shape, GetSizeOfDataType(type), here.states(), source, there.states(), target, links);
  std::tuple<double, int, int, int> best{kInfinity, 0, 0, 0};
  for (size_t a = 0; a < here.states().size(); ++a) {
    if (here.partial(static_cast<int>(a)) || before.seconds[a] == kInfinity) continue;
    for (size_t b = 0; b < after.size(); ++b) {
      if (there.partial(static_cast<int>(b))) continue;
      const double around = before.seconds[a] + after[b].seconds[static_cast<size_t>(end)];
      if (around >= std::get<0>(best)) continue;
      best = std::min(best, {around + cost.seconds(a, b), before.steps[a] + after[b].steps[static_cast<size_t>(end)],
                             static_cast<int>(a), static_cast<int>(b)});
    }
  }
  const auto a = static_cast<size_t>(std::get<2>(best)), b = static_cast<size_t>(std::get<3>(best));
  add(here.steps(before, static_cast<int>(a)), source);
  ops.push_back({{BoxingKind::kExchange, -1, here.states()[a], there.states()[b], BoxingReduction::kSum},
                 shape,
                 type,
                 source,
                 target});
  add(there.steps(after[b], end), target);
  return ops;
}

std::vector<double> boxingMatrix(const Shape &shape, DataType type, const std::vector<NdSbp> &states,
                                 const Placement &placement, const MeshLinks &links) {
  StateGraph graph(shape, type, placement, links, states);
  std::vector<int> index;
  for (const NdSbp &s : states) index.push_back(graph.indexOf(s));
  std::vector<double> seconds;
  seconds.reserve(states.size() * states.size());
  for (int from : index) {
    const StateGraph::Paths paths = graph.from(from);
    for (int to : index) seconds.push_back(paths.seconds[static_cast<size_t>(to)]);
  }
  return seconds;
}

} // namespace opc
