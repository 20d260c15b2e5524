// Estimated seconds of a boxing step.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingCost.h"

#include <algorithm>
#include <cmath>

namespace opc {

namespace {

/// Copies within a device are taken to be this many times as fast as its fastest link.
constexpr double kCopySpeed = 8;

double copyBandwidth(const MeshLinks &links) {
  double bandwidth = links.dims.empty() ? links.between.bandwidth : 0;
  for (const Link &l : links.dims) bandwidth = std::max(bandwidth, l.bandwidth);
  return kCopySpeed * bandwidth;
}

int64_t logarithm(int64_t p) {
  int64_t steps = 0;
  while ((int64_t{1} << steps) < p) ++steps;
  return steps;
}

int64_t partSize(int64_t size, int64_t parts, int64_t part) { return size / parts + (part < size % parts ? 1 : 0); }

/// Where on a mesh the devices with the most to do are looked for.
std::vector<int64_t> samplePositions(const std::vector<int64_t> &dims) {
  std::vector<int64_t> positions{0};
  for (int64_t n : dims) {
    std::vector<int64_t> coordinates{0, 1, n / 2, n - 1}, next;
    std::sort(coordinates.begin(), coordinates.end());
    coordinates.erase(std::unique(coordinates.begin(), coordinates.end()), coordinates.end());
    for (int64_t p : positions)
      for (int64_t c : coordinates)
        if (c < n) next.push_back(p * n + c);
    positions = std::move(next);
  }
  return positions;
}

int64_t replicasOf(const NdSbp &states, const std::vector<int64_t> &dims) {
  int64_t n = 1;
  for (size_t m = 0; m < dims.size(); ++m)
    if (!states[m].has_split_parallel()) n *= dims[m];
  return n;
}

/// Where the pieces of each axis end that are not empty.
std::vector<std::vector<int64_t>> pieceEndsOf(const Shape &shape, const NdSbp &states,
                                              const std::vector<int64_t> &dims) {
  std::vector<std::vector<int64_t>> all;
  for (int64_t axis = 0; axis < shape.NumAxes(); ++axis) {
    std::vector<int64_t> sizes{shape.At(axis)};
    for (size_t m = 0; m < states.size(); ++m) {
      if (!states[m].has_split_parallel() || states[m].axis() != axis) continue;
      std::vector<int64_t> next;
      for (int64_t s : sizes)
        for (int64_t part = 0; part < dims[m]; ++part) next.push_back(partSize(s, dims[m], part));
      sizes = std::move(next);
    }
    std::vector<int64_t> &ends = all.emplace_back();
    int64_t end = 0;
    for (int64_t s : sizes)
      if (s > 0) ends.push_back(end += s);
  }
  return all;
}

/// The only mesh dimension in which two states differ; the number of dimensions when there is no such one.
size_t changedDim(const NdSbp &from, const NdSbp &to) {
  size_t dim = from.size();
  for (size_t m = 0; m < from.size(); ++m) {
    if (from[m] == to[m]) continue;
    if (dim != from.size()) return from.size();
    dim = m;
  }
  return dim;
}

} // namespace

const Link &MeshLinks::of(size_t dim, BoxingKind kind) const {
  if (dim < kinds.size())
    if (const auto own = kinds[dim].find(kind); own != kinds[dim].end()) return own->second;
  return dim < dims.size() ? dims[dim] : between;
}

bool isCollective(const NdSbp &from, const NdSbp &to, const std::vector<int64_t> &dims) {
  const size_t dim = changedDim(from, to);
  if (dim == dims.size()) return false;
  for (size_t m = dim + 1; m < dims.size() && dims[dim] > 1; ++m)
    if (dims[m] > 1 && from[m].has_split_parallel() && (from[m] == from[dim] || from[m] == to[dim])) return false;
  return true;
}

std::optional<BoxingStep> collectiveStep(const NdSbp &from, const NdSbp &to, const std::vector<int64_t> &dims) {
  if (!isCollective(from, to, dims)) return std::nullopt;
  const size_t dim = changedDim(from, to);
  const SbpParallel &a = from[dim], &b = to[dim];
  BoxingKind kind = BoxingKind::kSlice;
  if (a.has_broadcast_parallel())
    kind = b.has_split_parallel() ? BoxingKind::kSlice : BoxingKind::kPartialOf;
  else if (a.has_split_parallel())
    kind = b.has_split_parallel()       ? BoxingKind::kAllToAll
           : b.has_broadcast_parallel() ? BoxingKind::kAllGather
                                        : BoxingKind::kPad;
  else
    kind = b.has_split_parallel() ? BoxingKind::kReduceScatter : BoxingKind::kAllReduce;
  return BoxingStep{kind, static_cast<int32_t>(dim), from, to, BoxingReduction::kSum};
}

double collectiveSeconds(const BoxingStep &step, const Shape &shape, size_t elementSize,
                         const std::vector<int64_t> &dims, const MeshLinks &links) {
  const auto dim = static_cast<size_t>(step.meshDim);
  const int64_t p = dims[dim];
  if (p == 1) return 0;
  // The largest group is the first one. A step is legal when no inner dimension splits the axes concerned, so the order
  // of the splits does not matter: the group's tensor is what the other dimensions leave.
  NdSbp rest = step.from;
  rest[dim] = SbpParallel::broadcast();
  const Shape group = localShape(shape, rest, dims, 0);
  const auto total = static_cast<double>(group.elem_cnt());
  if (total == 0) return 0;
  auto axisSize = [&](const SbpParallel &s) { return group.At(s.axis()); };
  auto piece = [&](const SbpParallel &s, int64_t part) {
    return total / static_cast<double>(axisSize(s)) * static_cast<double>(partSize(axisSize(s), p, part));
  };
  const SbpParallel &a = step.from[dim], &b = step.to[dim];
  const auto size = static_cast<double>(elementSize), others = static_cast<double>(p - 1);
  double messages = 0, sent = 0;
  switch (step.kind) {
  case BoxingKind::kSlice: return piece(b, 0) * size / copyBandwidth(links);
  case BoxingKind::kPartialOf:
  case BoxingKind::kPad: return total * size / copyBandwidth(links);
  case BoxingKind::kAllGather:
    messages = static_cast<double>(logarithm(p));
    sent = others * piece(a, 0);
    break;
  case BoxingKind::kReduceScatter:
    messages = static_cast<double>(logarithm(p));
    sent = total - piece(b, p - 1);
    break;
  case BoxingKind::kAllReduce: {
    messages = 2 * static_cast<double>(logarithm(p));
    const double own = std::ceil(total / static_cast<double>(p));
    sent = total - own + others * own;
    break;
  }
  case BoxingKind::kAllToAll: {
    messages = others;
    const double rest2 = total / static_cast<double>(axisSize(a)) / static_cast<double>(axisSize(b));
    // Who sends most: the first, or the first whose target piece is a smaller one.
    for (int64_t part : {int64_t{0}, axisSize(b) % p, axisSize(a) % p - 1})
      if (part >= 0)
        sent = std::max(sent, rest2 * static_cast<double>(partSize(axisSize(a), p, part)) *
                                  static_cast<double>(axisSize(b) - partSize(axisSize(b), p, part)));
    break;
  }
  case BoxingKind::kExchange: break;
  }
  const Link &link = links.of(dim, step.kind);
  return link.latency * messages + sent * size / link.bandwidth;
}

ExchangeCosts::Span ExchangeCosts::spanOf(const NdSbp &states, const Placement &placement, int64_t position) const {
  const Box box = localBox(shape_, states, placement.dims, position);
  Span span;
  for (size_t a = 0; a < rank_; ++a) {
    span.push_back(box.begin[a]);
    span.push_back(box.begin[a] + box.size[a]);
  }
  return span;
}

ExchangeCosts::ExchangeCosts(const Shape &shape, size_t elementSize, const std::vector<NdSbp> &from,
                             const Placement &source, const std::vector<NdSbp> &to, const Placement &target,
                             const MeshLinks &links)
    : shape_(shape), elementSize_(static_cast<double>(elementSize)), copyBandwidth_(copyBandwidth(links)),
      rank_(static_cast<size_t>(shape.NumAxes())), onePlacement_(source == target), fromStates_(from), toStates_(to),
      source_(source), target_(target), links_(links), senders_(samplePositions(source.dims)),
      receivers_(samplePositions(target.dims)), from_(from.size()), to_(to.size()) {}

void ExchangeCosts::prepareFrom(size_t state) {
  From &f = from_[state];
  if (!f.held.empty()) return;
  const NdSbp &states = fromStates_[state];
  f.pieceEnds = pieceEndsOf(shape_, states, source_.dims);
  f.replicas = static_cast<double>(replicasOf(states, source_.dims));
  for (int64_t s : senders_) f.held.push_back(spanOf(states, source_, s));
  for (int64_t t : receivers_) {
    std::vector<Span> &reach = f.reach.emplace_back();
    if (!onePlacement_) {
      if (const auto own = source_.positionOf(target_.ranks[static_cast<size_t>(t)]))
        reach.push_back(spanOf(states, source_, *own));
      continue;
    }
    NdSbp outer = broadcastStates(states.size());
    for (size_t m = 0; m < outer.size(); ++m) {
      if (!states[m].has_split_parallel()) continue;
      outer[m] = states[m];
      reach.push_back(spanOf(outer, source_, t));
    }
  }
  double inner = 1;
  for (size_t m = states.size(); m-- > 0 && onePlacement_;) {
    if (!states[m].has_split_parallel()) {
      inner *= static_cast<double>(source_.dims[m]);
      continue;
    }
    f.links.insert(f.links.begin(), links_.of(m, BoxingKind::kExchange));
    f.dims.insert(f.dims.begin(), m);
    f.holders.insert(f.holders.begin(), inner);
  }
}

void ExchangeCosts::prepareTo(size_t state) {
  To &t = to_[state];
  if (!t.wanted.empty()) return;
  const NdSbp &states = toStates_[state];
  t.replicas = static_cast<double>(replicasOf(states, target_.dims));
  t.localBytes = static_cast<double>(localShape(shape_, states, target_.dims, 0).elem_cnt()) * elementSize_;
  for (int64_t r : receivers_) t.wanted.push_back(spanOf(states, target_, r));
  for (int64_t s : senders_) {
    const auto position = target_.positionOf(source_.ranks[static_cast<size_t>(s)]);
    t.wantedBySource.push_back(position ? std::optional<Span>(spanOf(states, target_, *position)) : std::nullopt);
  }
  if (!onePlacement_) return;
  for (int64_t s : senders_) {
    std::vector<Span> &outer = t.outer.emplace_back();
    NdSbp before = broadcastStates(states.size());
    for (size_t m = 0; m <= states.size(); ++m) {
      outer.push_back(spanOf(before, target_, s));
      if (m < states.size()) before[m] = states[m];
    }
  }
  t.alike.assign(states.size() + 1, 1);
  for (size_t m = states.size(); m-- > 0;)
    t.alike[m] = t.alike[m + 1] * (states[m].has_split_parallel() ? 1.0 : static_cast<double>(target_.dims[m]));
}

double ExchangeCosts::atLeast(size_t from, size_t to) {
  prepareFrom(from);
  prepareTo(to);
  return received(from_[from], to_[to], receivers_.size() / 2).seconds;
}

namespace {
/// The elements that two boxes have in common, whose intervals are left in `common`.
double meet(const std::vector<int64_t> &a, const std::vector<int64_t> &b, int64_t *common) {
  double elements = 1;
  for (size_t i = 0; i < a.size(); i += 2) {
    common[i] = std::max(a[i], b[i]);
    common[i + 1] = std::max(common[i], std::min(a[i + 1], b[i + 1]));
    elements *= static_cast<double>(common[i + 1] - common[i]);
  }
  return elements;
}
} // namespace

int64_t ExchangeCosts::piecesIn(const From &from, const int64_t *span) const {
  int64_t n = 1;
  for (size_t a = 0; a < rank_; ++a) {
    const auto &ends = from.pieceEnds[a];
    const auto first = std::upper_bound(ends.begin(), ends.end(), span[2 * a]);
    n *= std::upper_bound(first, ends.end(), span[2 * a + 1] - 1) - first + 1;
  }
  return n;
}

ExchangeCosts::Load ExchangeCosts::received(const From &from, const To &to, size_t sample) const {
  int64_t common[2 * kMaxRank];
  const Span &wanted = to.wanted[sample];
  double reachable = meet(wanted, wanted, common);
  Load load;
  if (reachable == 0) return load;
  auto pieces = static_cast<double>(piecesIn(from, common));
  auto take = [&](double elements, const Link &link) {
    if (elements == reachable) return;
    const double count = elements == 0 ? 0 : static_cast<double>(piecesIn(from, common));
    load.elements += reachable - elements;
    load.seconds +=
        link.latency * std::max(0.0, pieces - count) + (reachable - elements) * elementSize_ / link.bandwidth;
    reachable = elements;
    pieces = count;
  };
  const std::vector<Span> &reach = from.reach[sample];
  for (size_t i = 0; i < reach.size(); ++i)
    take(meet(wanted, reach[i], common), !onePlacement_ ? links_.between : from.links[i]);
  // A device of another placement holds nothing yet.
  if (reach.empty() && !onePlacement_) take(0, links_.between);
  return load;
}

/// Those who want a part of the own piece and meet its holders first at a dimension that splits: they agree in the
/// coordinates before it and differ there. All of them, less those that agree there too.
double ExchangeCosts::sentSeconds(const From &from, const To &to, size_t sample) const {
  int64_t common[2 * kMaxRank];
  double seconds = 0;
  for (size_t i = 0; i < from.dims.size(); ++i) {
    const size_t m = from.dims[i];
    const double all = meet(from.held[sample], to.outer[sample][m], common) * to.alike[m],
                 near = meet(from.held[sample], to.outer[sample][m + 1], common) * to.alike[m + 1];
    seconds += (all - near) / from.holders[i] * elementSize_ / from.links[i].bandwidth;
  }
  return seconds;
}

double ExchangeCosts::seconds(size_t fromState, size_t toState) {
  prepareFrom(fromState);
  prepareTo(toState);
  const From &from = from_[fromState];
  const To &to = to_[toState];
  int64_t common[2 * kMaxRank];
  double seconds = 0, received = 0, sent = 0;
  for (size_t t = 0; t < to.wanted.size(); ++t) {
    const Load load = this->received(from, to, t);
    seconds = std::max(seconds, load.seconds);
    received = std::max(received, load.elements);
  }
  if (received == 0) return to.localBytes / copyBandwidth_;
  for (size_t s = 0; s < from.held.size(); ++s) {
    if (onePlacement_) {
      seconds = std::max(seconds, sentSeconds(from, to, s));
      continue;
    }
    const double own = to.wantedBySource[s] ? meet(from.held[s], *to.wantedBySource[s], common) : 0;
    sent = std::max(sent, meet(from.held[s], from.held[s], common) * to.replicas / from.replicas - own);
  }
  return seconds * std::max(1.0, sent / received);
}

double boxingSeconds(const BoxingOp &op, const MeshLinks &links) {
  const size_t size = GetSizeOfDataType(op.type);
  if (op.step.kind != BoxingKind::kExchange) return collectiveSeconds(op.step, op.shape, size, op.source.dims, links);
  const std::vector<NdSbp> from{op.step.from}, to{op.step.to};
  return ExchangeCosts(op.shape, size, from, op.source, to, op.target, links).seconds(0, 0);
}

} // namespace opc
