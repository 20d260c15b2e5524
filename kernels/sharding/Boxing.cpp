// Boxing: names of the steps, what a rank sends and receives in one.
// SPDX-License-Identifier: Apache-2.0
#include "Boxing.h"
#include "BoxingExchange.h"

#include <algorithm>

namespace opc {

namespace {

constexpr const char *kNames[] = {"slice",      "partial_of",     "pad",        "all_gather",
                                  "all_to_all", "reduce_scatter", "all_reduce", "exchange"};

/// Elements [begin, begin + size) of a row of `total` in balanced pieces.
Box flatPiece(int64_t total, int64_t pieces, int64_t piece) {
  return localBox(Shape({total}), {SbpParallel::split(0)}, {pieces}, piece);
}

/// The traffic of one collective within a group of a mesh dimension.
BoxingTraffic groupTraffic(const BoxingOp &op, int64_t position) {
  BoxingTraffic traffic;
  const Placement &mesh = op.source;
  auto boxOf = [&](const NdSbp &states, int64_t p) { return localBox(op.shape, states, mesh.dims, p); };
  const std::vector<int64_t> group = mesh.group(position, op.step.meshDim);
  const auto size = static_cast<int64_t>(group.size());
  const Box from = boxOf(op.step.from, position), to = boxOf(op.step.to, position);
  int64_t me = 0;
  while (group[static_cast<size_t>(me)] != position) ++me;
  for (int64_t g = 0; g < size; ++g) {
    const int64_t other = group[static_cast<size_t>(g)];
    if (other == position) continue;
    Box sent, received;
    switch (op.step.kind) {
    case BoxingKind::kAllGather:
      sent = from;
      received = boxOf(op.step.from, other);
      break;
    case BoxingKind::kAllToAll:
      sent = intersect(from, boxOf(op.step.to, other));
      received = intersect(boxOf(op.step.from, other), to);
      break;
    case BoxingKind::kReduceScatter:
      sent = boxOf(op.step.to, other);
      received = to;
      break;
    case BoxingKind::kAllReduce:
      sent = flatPiece(from.elements(), size, g);
      received = flatPiece(from.elements(), size, me);
      break;
    default: continue;
    }
    const int64_t rank = mesh.ranks[static_cast<size_t>(other)];
    if (sent.elements() > 0) traffic.sends.push_back({rank, std::move(sent)});
    if (received.elements() > 0) traffic.receives.push_back({rank, std::move(received)});
  }
  auto byRank = [](const BoxingTransfer &a, const BoxingTransfer &b) { return a.rank < b.rank; };
  std::sort(traffic.sends.begin(), traffic.sends.end(), byRank);
  std::sort(traffic.receives.begin(), traffic.receives.end(), byRank);
  return traffic;
}

bool isLocal(BoxingKind kind) {
  return kind == BoxingKind::kSlice || kind == BoxingKind::kPartialOf || kind == BoxingKind::kPad;
}

} // namespace

const char *boxingKindName(BoxingKind kind) { return kNames[static_cast<size_t>(kind)]; }
std::optional<BoxingKind> parseBoxingKind(const std::string &name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<BoxingKind>(i);
  return std::nullopt;
}

BoxingTraffic boxingTraffic(const BoxingOp &op, int64_t rank) {
  if (isLocal(op.step.kind)) return {};
  if (op.step.kind == BoxingKind::kExchange) {
    const BoxingExchange exchange(op);
    return {exchange.sends(rank), exchange.receives(rank)};
  }
  const auto position = op.source.positionOf(rank);
  return position ? groupTraffic(op, *position) : BoxingTraffic{};
}

int64_t bytesSent(const BoxingOp &op, int64_t rank) {
  if (isLocal(op.step.kind)) return 0;
  int64_t elements = 0;
  if (op.step.kind == BoxingKind::kExchange) {
    for (const BoxingTransfer &t : BoxingExchange(op).sends(rank)) elements += t.box.elements();
  } else {
    const BoxingTraffic traffic = boxingTraffic(op, rank);
    for (const BoxingTransfer &t : traffic.sends) elements += t.box.elements();
    if (op.step.kind == BoxingKind::kAllReduce) // the second half: the own piece to each of the others
      for (const BoxingTransfer &t : traffic.receives) elements += t.box.elements();
  }
  return elements * static_cast<int64_t>(GetSizeOfDataType(op.type));
}

} // namespace opc
