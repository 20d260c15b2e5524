// Where the nodes of a graph stand in a drawing.
// SPDX-License-Identifier: Apache-2.0
#include "GraphLayout.h"

#include <algorithm>

namespace opc::cli {

namespace {

class Layout {
public:
  explicit Layout(const FactNodes &graph) : graph_(graph) { result_.places.resize(graph.size()); }

  GraphLayout run() {
    for (size_t n = 0; n < graph_.size(); ++n) placeInRow(n);
    pullInputs();
    int32_t last = -1;
    for (const auto &p : result_.places) last = std::max(last, p.row);
    result_.rows = last + 1;
    spread();
    return std::move(result_);
  }

private:
  static uint32_t laneOf(const FactNode &node) { return node.role == kForward ? 0 : node.role == kBackward ? 1 : 2; }

  /// A forward op stands below what it reads. A backward op stands beside the op whose gradient it computes, where that
  /// is known; else beside the lowest maker of the values that it reads of the forward pass, else beside what it
  /// continues.
  void placeInRow(size_t n) {
    const FactNode &node = graph_.nodes[n];
    auto &place = result_.places[n];
    if (node.kind == NodeKind::kVariable) return;
    place.lane = laneOf(node);
    int32_t forward = -1, other = -1;
    for (const FactNode::Operand &o : node.operands) {
      if (o.producer < 0) continue;
      const auto &maker = result_.places[static_cast<size_t>(o.producer)];
      if (maker.row < 0) continue;
      if (maker.lane == 0)
        forward = std::max(forward, maker.row);
      else if (other < 0)
        other = maker.row;
    }
    if (place.lane == 0 && node.kind != NodeKind::kOutput)
      place.row = forward + 1;
    else if (node.kind == NodeKind::kOutput) {
      const int32_t maker = node.operands.empty() ? -1 : node.operands[0].producer;
      if (maker >= 0) place.lane = result_.places[static_cast<size_t>(maker)].lane;
      place.row = std::max(forward, other) + 1;
    } else {
      const int32_t of = node.gradientOf < 0 ? -1 : result_.places[static_cast<size_t>(node.gradientOf)].row;
      place.row = std::max(0, of >= 0 ? of : forward >= 0 ? forward : other);
    }
  }

  /// An input stands above the first that reads it.
  void pullInputs() {
    for (size_t n = 0; n < graph_.size(); ++n) {
      const FactNode &node = graph_.nodes[n];
      if (node.kind != NodeKind::kInput) continue;
      int32_t first = -1;
      for (const FactNode::Reader &r : node.readers) {
        const int32_t row = result_.places[r.node].row;
        if (first < 0 || row < first) first = row;
      }
      result_.places[n].row = std::max(0, first - 1);
    }
  }

  void spread() {
    std::vector<std::vector<uint32_t>> cells(static_cast<size_t>(result_.rows) * 3);
    for (uint32_t n = 0; n < graph_.size(); ++n)
      if (const auto &p = result_.places[n]; p.row >= 0) cells[static_cast<size_t>(p.row) * 3 + p.lane].push_back(n);
    size_t widest[3] = {};
    for (size_t c = 0; c < cells.size(); ++c) widest[c % 3] = std::max(widest[c % 3], cells[c].size());
    for (int lane = 0; lane < 3; ++lane)
      result_.laneStart[lane + 1] = result_.laneStart[lane] + static_cast<double>(widest[lane]);
    for (size_t c = 0; c < cells.size(); ++c) {
      std::vector<uint32_t> &cell = cells[c];
      std::vector<std::pair<double, uint32_t>> order;
      for (const uint32_t n : cell) order.push_back({wish(n), n});
      std::stable_sort(order.begin(), order.end(), [](const auto &x, const auto &y) { return x.first < y.first; });
      const double start =
          result_.laneStart[c % 3] + (static_cast<double>(widest[c % 3]) - static_cast<double>(cell.size())) / 2;
      for (size_t i = 0; i < order.size(); ++i) result_.places[order[i].second].x = start + static_cast<double>(i);
    }
  }

  /// Below the middle of what it reads.
  double wish(uint32_t n) const {
    double sum = 0;
    int count = 0;
    for (const FactNode::Operand &o : graph_.nodes[n].operands) {
      if (o.producer < 0) continue;
      const auto &maker = result_.places[static_cast<size_t>(o.producer)];
      if (maker.row < 0 || maker.lane != result_.places[n].lane) continue;
      sum += maker.x;
      ++count;
    }
    return count ? sum / count : 1e9; // what reads nothing comes last, in its order
  }

  static constexpr const char *kForward = "forward", *kBackward = "backward";
  const FactNodes &graph_;
  GraphLayout result_;
};

} // namespace

GraphLayout layOut(const FactNodes &graph) { return Layout(graph).run(); }

} // namespace opc::cli
