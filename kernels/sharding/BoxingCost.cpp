// Estimated seconds of a boxing step.
#include "BoxingCost.h"

#include <algorithm>
#include <cmath>

namespace opc {

namespace {

/// Copies within a device are taken to be this many times as fast as its fastest link.
constexpr double kCopySpeed = 8;

double copySeconds(double bytes, const MeshLinks &links) {
  double bandwidth = links.dims.empty() ? links.between.bandwidth : 0;
  for (const Link &l : links.dims) bandwidth = std::max(bandwidth, l.bandwidth);
  return bytes / (kCopySpeed * bandwidth);
}

const Link &linkOf(const MeshLinks &links, size_t dim) {
  return dim < links.dims.size() ? links.dims[dim] : links.between;
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

int64_t replicas(const NdSbp &states, const std::vector<int64_t> &dims) {
  int64_t n = 1;
  for (size_t m = 0; m < dims.size(); ++m)
    if (!states[m].has_split_parallel()) n *= dims[m];
  return n;
}

} // namespace

std::optional<BoxingStep> collectiveStep(const NdSbp &from, const NdSbp &to, const std::vector<int64_t> &dims) {
  size_t dim = dims.size();
  for (size_t m = 0; m < dims.size(); ++m) {
    if (from[m] == to[m]) continue;
    if (dim != dims.size()) return std::nullopt;
    dim = m;
  }
  if (dim == dims.size()) return std::nullopt;
  const SbpParallel &a = from[dim], &b = to[dim];
  if (dims[dim] > 1)
    for (size_t m = dim + 1; m < dims.size(); ++m)
      if (dims[m] > 1 && from[m].has_split_parallel() && (from[m] == a || from[m] == b)) return std::nullopt;
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
  case BoxingKind::kSlice: return copySeconds(piece(b, 0) * size, links);
  case BoxingKind::kPartialOf:
  case BoxingKind::kPad: return copySeconds(total * size, links);
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
  const Link &link = linkOf(links, dim);
  return link.latency * messages + sent * size / link.bandwidth;
}

ExchangeCost::ExchangeCost(const Shape &shape, size_t elementSize, const NdSbp &from, const Placement &source,
                           const MeshLinks &links)
    : shape_(shape), elementSize_(elementSize), from_(from), source_(source), links_(links) {
  for (int64_t axis = 0; axis < shape.NumAxes(); ++axis) {
    std::vector<int64_t> sizes{shape.At(axis)};
    for (size_t m = 0; m < from.size(); ++m) {
      if (!from[m].has_split_parallel() || from[m].axis() != axis) continue;
      std::vector<int64_t> next;
      for (int64_t s : sizes)
        for (int64_t part = 0; part < source.dims[m]; ++part) next.push_back(partSize(s, source.dims[m], part));
      sizes = std::move(next);
    }
    std::vector<int64_t> ends;
    int64_t end = 0;
    for (int64_t s : sizes)
      if (s > 0) ends.push_back(end += s);
    pieceEnds_.push_back(std::move(ends));
  }
}

int64_t ExchangeCost::piecesIn(const Box &box) const {
  int64_t n = 1;
  for (size_t a = 0; a < pieceEnds_.size(); ++a) {
    if (box.size[a] == 0) return 0;
    const auto &ends = pieceEnds_[a];
    const auto first = std::upper_bound(ends.begin(), ends.end(), box.begin[a]);
    const auto last = std::upper_bound(first, ends.end(), box.begin[a] + box.size[a] - 1);
    n *= last - first + 1;
  }
  return n;
}

ExchangeCost::Load ExchangeCost::received(const NdSbp &to, const Placement &target, int64_t position,
                                          bool onePlacement) const {
  const Box wanted = localBox(shape_, to, target.dims, position);
  Load load;
  if (wanted.elements() == 0) return load;
  // What is within reach of the dimensions from some inner one on: the own piece last.
  double reachable = static_cast<double>(wanted.elements());
  auto pieces = static_cast<double>(piecesIn(wanted));
  auto take = [&](const Box &closer, const Link &link) {
    const auto elements = static_cast<double>(closer.elements());
    const auto count = elements == 0 ? 0.0 : static_cast<double>(piecesIn(closer));
    load.elements += reachable - elements;
    load.seconds += link.latency * std::max(0.0, pieces - count) +
                    (reachable - elements) * static_cast<double>(elementSize_) / link.bandwidth;
    reachable = elements;
    pieces = count;
  };
  if (!onePlacement) {
    const auto own = source_.positionOf(target.ranks[static_cast<size_t>(position)]);
    if (own)
      take(intersect(wanted, localBox(shape_, from_, source_.dims, *own)), links_.between);
    else
      take(Box{std::vector<int64_t>(wanted.begin.size() + 1, 0), std::vector<int64_t>(wanted.begin.size() + 1, 0)},
           links_.between);
    return load;
  }
  NdSbp outer = broadcastStates(from_.size());
  for (size_t m = 0; m < from_.size(); ++m) {
    if (!from_[m].has_split_parallel()) continue;
    outer[m] = from_[m];
    take(intersect(wanted, localBox(shape_, outer, source_.dims, position)), linkOf(links_, m));
  }
  return load;
}

double ExchangeCost::seconds(const NdSbp &to, const Placement &target) const {
  const bool onePlacement = source_ == target;
  double seconds = 0, received = 0, sent = 0;
  for (int64_t t : samplePositions(target.dims)) {
    const Load load = this->received(to, target, t, onePlacement);
    seconds = std::max(seconds, load.seconds);
    received = std::max(received, load.elements);
  }
  if (received == 0)
    return copySeconds(static_cast<double>(localShape(shape_, to, target.dims, 0).elem_cnt() * elementSize_), links_);
  const double copies =
      static_cast<double>(replicas(to, target.dims)) / static_cast<double>(replicas(from_, source_.dims));
  for (int64_t s : samplePositions(source_.dims)) {
    const Box piece = localBox(shape_, from_, source_.dims, s);
    double own = 0;
    if (const auto t = target.positionOf(source_.ranks[static_cast<size_t>(s)]))
      own = static_cast<double>(intersect(piece, localBox(shape_, to, target.dims, *t)).elements());
    sent = std::max(sent, static_cast<double>(piece.elements()) * copies - own);
  }
  return seconds * std::max(1.0, sent / received);
}

double boxingSeconds(const BoxingOp &op, const MeshLinks &links) {
  const size_t size = GetSizeOfDataType(op.type);
  if (op.step.kind != BoxingKind::kExchange) return collectiveSeconds(op.step, op.shape, size, op.source.dims, links);
  return ExchangeCost(op.shape, size, op.step.from, op.source, links).seconds(op.step.to, op.target);
}

} // namespace opc
