// Which ranks of a plan do the same at the same time, so that one of them stands for all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Placement.h"
#include "plan.pb.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace opc::simulate {

/// The ranks that a boxing task joins: a mesh dimension of a placement, or (dimension -1) two placements.
struct GroupKind {
  uint32_t source = 0, target = 0; // placements
  int32_t meshDim = -1;
  bool operator<(const GroupKind &o) const {
    return std::tie(source, target, meshDim) < std::tie(o.source, o.target, o.meshDim);
  }
};

class RankClasses {
public:
  /// `used`: the kinds of groups that the tasks of each part use. The coarsest partition of the ranks such that ranks
  /// of a class have one part, and groups of one kind in which a class is have members of the same classes.
  RankClasses(const std::vector<uint32_t> &partOfRank, const std::vector<Placement> &placements,
              const std::vector<std::vector<GroupKind>> &used);

  uint32_t count() const { return static_cast<uint32_t>(firstRank_.size()); }
  uint32_t classOf(int64_t rank) const { return classOf_[static_cast<size_t>(rank)]; }
  int64_t firstRank(uint32_t c) const { return firstRank_[c]; }
  int64_t ranks(uint32_t c) const { return ranks_[c]; }
  /// The classes that a class meets in a kind of group, itself among them, ascending.
  std::vector<uint32_t> met(uint32_t c, const GroupKind &kind) const;

private:
  /// For every rank of a placement, which set of classes its group along a dimension has.
  std::vector<std::vector<uint32_t>> groupSets(const Placement &placement, int32_t meshDim) const;
  void number(const std::vector<std::vector<uint32_t>> &signatures);

  const std::vector<Placement> &placements_;
  std::vector<uint32_t> classOf_;
  std::vector<int64_t> firstRank_, ranks_;
};

} // namespace opc::simulate
