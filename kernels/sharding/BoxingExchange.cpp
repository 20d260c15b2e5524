// kExchange: who sends which piece to whom.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingExchange.h"

#include <algorithm>
#include <map>
#include <set>

namespace opc {

BoxingExchange::BoxingExchange(const BoxingOp &op) : op_(op), onePlacement_(op.source == op.target) {
  for (int64_t p = 0; p < op.target.size(); ++p) wanted_.push_back(localBox(op.shape, op.step.to, op.target.dims, p));
}

/// Everything that leaves the holders of the piece at a position of the source, wanters in mesh order.
std::vector<BoxingExchange::Delivery> BoxingExchange::deliveries(int64_t sourcePosition) const {
  const Box piece = localBox(op_.shape, op_.step.from, op_.source.dims, sourcePosition);
  if (piece.elements() == 0) return {};
  // The holders differ from each other in the coordinates of the mesh dimensions that do not split.
  std::vector<int64_t> holders{0};
  const std::vector<int64_t> at = op_.source.coordinates(sourcePosition);
  for (size_t m = 0; m < at.size(); ++m) {
    const bool splits = op_.step.from[m].has_split_parallel();
    std::vector<int64_t> next;
    for (int64_t h : holders)
      for (int64_t c = splits ? at[m] : 0; c <= (splits ? at[m] : op_.source.dims[m] - 1); ++c)
        next.push_back(h * op_.source.dims[m] + c);
    holders = std::move(next);
  }
  std::set<int64_t> holderRanks;
  for (int64_t h : holders) holderRanks.insert(op_.source.ranks[static_cast<size_t>(h)]);

  // Wanters that have the same nearest holders share them: all that agree in the leading coordinates up to `agree`.
  // Strides of prefixes: positions with equal position / stride agree in the dimensions before.
  std::vector<int64_t> strides{op_.source.size()};
  for (int64_t d : op_.source.dims) strides.push_back(strides.back() / d);
  struct Group {
    std::vector<int64_t> holders;
    std::vector<size_t> members; // indices of `found`
    int64_t elements = 0;
  };
  std::vector<Delivery> found;
  std::map<std::pair<size_t, int64_t>, Group> groups;
  for (int64_t t = 0; t < op_.target.size(); ++t) {
    Box part = intersect(piece, wanted_[static_cast<size_t>(t)]);
    const int64_t elements = part.elements();
    if (elements == 0 || holderRanks.count(op_.target.ranks[static_cast<size_t>(t)])) continue;
    size_t agree = 0;
    if (onePlacement_)
      for (int64_t h : holders)
        while (agree + 1 < strides.size() && h / strides[agree + 1] == t / strides[agree + 1]) ++agree;
    Group &group = groups[{agree, t / strides[agree]}];
    if (group.holders.empty())
      for (int64_t h : holders)
        if (!onePlacement_ || h / strides[agree] == t / strides[agree]) group.holders.push_back(h);
    group.members.push_back(found.size());
    group.elements += elements;
    found.push_back({t, 0, std::move(part)});
  }
  for (auto &[key, group] : groups) {
    int64_t before = 0;
    const auto count = static_cast<int64_t>(group.holders.size());
    for (size_t i : group.members) {
      const int64_t elements = found[i].box.elements();
      // The holder at the middle of the wanter's share of all that is sent.
      const double middle = (static_cast<double>(before) + 0.5 * static_cast<double>(elements)) /
                            static_cast<double>(group.elements) * static_cast<double>(count);
      found[i].holder = group.holders[static_cast<size_t>(std::min(count - 1, static_cast<int64_t>(middle)))];
      before += elements;
    }
  }
  return found;
}

std::vector<BoxingTransfer> BoxingExchange::sends(int64_t rank) const {
  std::vector<BoxingTransfer> list;
  const auto position = op_.source.positionOf(rank);
  if (!position) return list;
  for (Delivery &d : deliveries(*position))
    if (d.holder == *position) list.push_back({op_.target.ranks[static_cast<size_t>(d.wanter)], std::move(d.box)});
  std::sort(list.begin(), list.end(), [](const auto &a, const auto &b) { return a.rank < b.rank; });
  return list;
}

std::vector<BoxingTransfer> BoxingExchange::receives(int64_t rank) const {
  std::vector<BoxingTransfer> list;
  const auto position = op_.target.positionOf(rank);
  if (!position) return list;
  const Box &wanted = wanted_[static_cast<size_t>(*position)];
  for (int64_t s = 0; s < op_.source.size(); ++s) {
    // One holder stands for each piece: the one at the start of the dimensions that do not split.
    const std::vector<int64_t> at = op_.source.coordinates(s);
    bool first = true;
    for (size_t m = 0; m < at.size(); ++m) first &= op_.step.from[m].has_split_parallel() || at[m] == 0;
    if (!first || intersect(wanted, localBox(op_.shape, op_.step.from, op_.source.dims, s)).elements() == 0) continue;
    for (Delivery &d : deliveries(s))
      if (d.wanter == *position) list.push_back({op_.source.ranks[static_cast<size_t>(d.holder)], std::move(d.box)});
  }
  std::sort(list.begin(), list.end(), [](const auto &a, const auto &b) { return a.rank < b.rank; });
  return list;
}

} // namespace opc
