// A tensor's state on a mesh, one of S(axis), B, P for each mesh dimension, and the piece that a device holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"
#include "opc/Sbp.h"
#include "opc/Shape.h"

#include <optional>
#include <string>
#include <vector>

namespace opc {

/// One state for each dimension of the mesh. Applied from the outermost dimension inwards: S(i) takes a piece of axis i
/// of what is left, B leaves it, P makes it an addend.
using NdSbp = std::vector<SbpParallel>;

/// "S(0)" on a mesh of one dimension, "[S(0), B]" on others.
std::string toString(const NdSbp &states);
/// "S(0)", "S0", "B", "P", "[S(0),B]", "S0,B". Nothing when the text is none.
std::optional<NdSbp> parseNdSbp(const std::string &text);

/// Elements [begin, begin + size) on every axis of a tensor.
struct Box {
  std::vector<int64_t> begin, size;
  int64_t elements() const;
  bool operator==(const Box &o) const { return begin == o.begin && size == o.size; }
};
Box intersect(const Box &a, const Box &b);

/// The piece of a logical tensor that the device at `position` of a mesh holds. Splits are balanced and nested: the
/// first size % n pieces have one element more, and an inner dimension splits what the outer ones leave.
Box localBox(const Shape &logical, const NdSbp &states, const std::vector<int64_t> &dims, int64_t position);
Shape localShape(const Shape &logical, const NdSbp &states, const std::vector<int64_t> &dims, int64_t position);

/// Whether a tensor may be in a state: the axes exist, and bool tensors have no partial sums. With `noEmptyPart` also:
/// every device gets at least one element of each axis that is split.
bool isLegal(const Shape &shape, DataType type, const NdSbp &states, const std::vector<int64_t> &dims,
             bool noEmptyPart);
/// Every legal state (isLegal with noEmptyPart), in a fixed order: the states of the last mesh dimension vary fastest;
/// on each dimension S(0), S(1), ..., B, P.
std::vector<NdSbp> legalStates(const Shape &shape, DataType type, const std::vector<int64_t> &dims);

bool hasPartial(const NdSbp &states);
bool isBroadcast(const NdSbp &states);
NdSbp broadcastStates(size_t meshRank);

} // namespace opc
