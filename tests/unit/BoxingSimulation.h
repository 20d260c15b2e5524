// Carries boxing steps out on small integer tensors by what boxingTraffic says, and checks states by their definition.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

namespace opc::boxing_simulation {

/// What a rank holds: the elements of a box, row-major.
struct Piece {
  Box box;
  std::vector<int64_t> values;
};
using Pieces = std::map<int64_t, Piece>; // by rank

inline int64_t flatIndex(const Box &box, const std::vector<int64_t> &at) {
  int64_t i = 0;
  for (size_t a = 0; a < at.size(); ++a) i = i * box.size[a] + at[a] - box.begin[a];
  return i;
}

template <class F> void forEach(const Box &box, F &&f) {
  if (box.elements() == 0) return;
  std::vector<int64_t> at = box.begin;
  for (;;) {
    f(at);
    size_t a = at.size();
    while (a > 0 && ++at[a - 1] == box.begin[a - 1] + box.size[a - 1]) at[a - 1] = box.begin[a - 1], --a;
    if (a == 0) return;
  }
}

inline int64_t elementOf(const Shape &shape, const std::vector<int64_t> &at) {
  int64_t i = 0;
  for (size_t a = 0; a < at.size(); ++a) i = i * shape.At(static_cast<int64_t>(a)) + at[a];
  return 100 + 7 * i;
}

/// The mesh coordinates in the dimensions that are P, as one number, and how many there are.
inline std::pair<int64_t, int64_t> addendOf(const NdSbp &states, const Placement &mesh, int64_t position) {
  int64_t index = 0, count = 1;
  const auto at = mesh.coordinates(position);
  for (size_t m = 0; m < at.size(); ++m)
    if (states[m].has_partial_sum_parallel()) index = index * mesh.dims[m] + at[m], count *= mesh.dims[m];
  return {index, count};
}

/// A tensor in a state. Addends are arbitrary numbers that sum to the element.
inline Pieces scatter(const Shape &shape, const NdSbp &states, const Placement &mesh) {
  Pieces all;
  for (int64_t p = 0; p < mesh.size(); ++p) {
    Piece piece{localBox(shape, states, mesh.dims, p), {}};
    const auto [index, count] = addendOf(states, mesh, p);
    forEach(piece.box, [&, index = index, count = count](const std::vector<int64_t> &at) {
      const int64_t whole = elementOf(shape, at);
      auto share = [&](int64_t i) { return (whole * 31 + i * 17) % 23 - 11; };
      int64_t value = share(index);
      if (index + 1 == count) {
        value = whole;
        for (int64_t i = 0; i + 1 < count; ++i) value -= share(i);
      }
      piece.values.push_back(value);
    });
    all[mesh.ranks[static_cast<size_t>(p)]] = std::move(piece);
  }
  return all;
}

/// The definition: the right box on every device, addends that sum to the tensor, equal replicas.
inline bool isInState(const Pieces &pieces, const Shape &shape, const NdSbp &states, const Placement &mesh) {
  std::map<std::pair<int64_t, std::vector<int64_t>>, int64_t> values; // (addend, index) -> value
  std::map<std::vector<int64_t>, int64_t> sums;
  for (int64_t p = 0; p < mesh.size(); ++p) {
    const auto found = pieces.find(mesh.ranks[static_cast<size_t>(p)]);
    if (found == pieces.end() || !(found->second.box == localBox(shape, states, mesh.dims, p))) return false;
    bool equal = found->second.values.size() == static_cast<size_t>(found->second.box.elements());
    const int64_t addend = addendOf(states, mesh, p).first;
    size_t i = 0;
    forEach(found->second.box, [&](const std::vector<int64_t> &at) {
      const int64_t value = found->second.values[i++];
      const auto [it, fresh] = values.try_emplace({addend, at}, value);
      if (fresh)
        sums[at] += value;
      else
        equal &= it->second == value;
    });
    if (!equal) return false;
  }
  bool right = static_cast<int64_t>(sums.size()) == shape.elem_cnt();
  for (const auto &[at, sum] : sums) right &= sum == elementOf(shape, at);
  return right;
}

inline std::vector<int64_t> extract(const Piece &piece, const Box &box) {
  std::vector<int64_t> values;
  forEach(box, [&](const std::vector<int64_t> &at) {
    values.push_back(piece.values.at(static_cast<size_t>(flatIndex(piece.box, at))));
  });
  return values;
}

/// Carries out one step. Requires that every receive has its send, and that no element comes twice or is left out.
inline Pieces carryOut(const BoxingOp &op, const Pieces &before) {
  const BoxingKind kind = op.step.kind;
  std::map<int64_t, BoxingTraffic> traffic;
  for (const auto *placement : {&op.source, &op.target})
    for (int64_t r : placement->ranks)
      if (!traffic.count(r)) traffic[r] = boxingTraffic(op, r);
  // (from, to) -> box; both ends agree.
  std::map<std::pair<int64_t, int64_t>, Box> sent;
  size_t received = 0;
  for (const auto &[rank, t] : traffic) {
    int64_t last = -1;
    for (const auto &s : t.sends) {
      if (s.rank <= last || s.rank == rank || s.box.elements() == 0) FAIL("sends out of order, to itself or empty");
      sent[{rank, last = s.rank}] = s.box;
    }
    received += t.receives.size();
  }
  if (received != sent.size()) FAIL("a send without a receive");

  Pieces after;
  for (int64_t p = 0; p < op.target.size(); ++p) {
    const int64_t rank = op.target.ranks[static_cast<size_t>(p)];
    Piece piece{localBox(op.shape, op.step.to, op.target.dims, p), {}};
    piece.values.assign(static_cast<size_t>(piece.box.elements()), 0);
    std::vector<int> filled(piece.values.size(), 0);
    const auto mine = before.find(rank);
    const int64_t coordinate =
        op.step.meshDim >= 0 ? op.target.coordinates(p)[static_cast<size_t>(op.step.meshDim)] : 0;
    auto put = [&](const Box &box, const std::vector<int64_t> &values) {
      size_t i = 0;
      forEach(box, [&](const std::vector<int64_t> &at) {
        const auto k = static_cast<size_t>(flatIndex(piece.box, at));
        piece.values.at(k) += values.at(i++);
        ++filled.at(k);
      });
    };
    if (kind == BoxingKind::kAllReduce) {
      // A flat row in balanced pieces: reduce the own one, then everybody gives theirs to everybody.
      piece.values = mine->second.values;
      const std::vector<int64_t> group = op.source.group(p, op.step.meshDim);
      const auto n = static_cast<int64_t>(group.size());
      for (int64_t owner = 0; owner < n; ++owner) {
        const int64_t ownerRank = op.source.ranks[static_cast<size_t>(group[static_cast<size_t>(owner)])];
        const Box row = localBox(Shape({piece.box.elements()}), {SbpParallel::split(0)}, {n}, owner);
        for (int64_t i = row.begin[0]; i < row.begin[0] + row.size[0]; ++i) {
          int64_t sum = before.at(ownerRank).values[static_cast<size_t>(i)];
          for (const auto &r : traffic[ownerRank].receives) {
            if (!(r.box == row) || !(sent.at({r.rank, ownerRank}) == row)) FAIL("not the owner's piece");
            sum += before.at(r.rank).values[static_cast<size_t>(i)];
          }
          piece.values[static_cast<size_t>(i)] = sum;
        }
      }
    } else if (kind == BoxingKind::kPartialOf) {
      if (coordinate == 0) piece.values = mine->second.values;
    } else {
      if (mine != before.end()) {
        const Box own = intersect(mine->second.box, piece.box);
        put(own, extract(mine->second, own));
      }
      for (const auto &r : traffic[rank].receives) {
        if (!(sent.at({r.rank, rank}) == r.box)) FAIL("the ends of a transfer disagree");
        put(r.box, extract(before.at(r.rank), r.box));
      }
      int expected = 1;
      if (kind == BoxingKind::kReduceScatter)
        expected = static_cast<int>(op.source.dims[static_cast<size_t>(op.step.meshDim)]);
      if (kind != BoxingKind::kPad)
        REQUIRE(std::all_of(filled.begin(), filled.end(), [&](int f) { return f == expected; }));
    }
    after[rank] = std::move(piece);
  }
  return after;
}

} // namespace opc::boxing_simulation
