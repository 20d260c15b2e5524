// Partition refinement: classes begin as parts and split until members of one class meet the same classes.
// SPDX-License-Identifier: Apache-2.0
#include "RankClasses.h"

#include <algorithm>
#include <map>
#include <set>

namespace opc::simulate {

RankClasses::RankClasses(const std::vector<uint32_t> &partOfRank, const std::vector<Placement> &placements,
                         const std::vector<std::vector<GroupKind>> &used)
    : placements_(placements), classOf_(partOfRank) {
  std::set<std::pair<uint32_t, int32_t>> groups;
  for (const auto &list : used)
    for (const GroupKind &k : list)
      if (k.meshDim >= 0) groups.insert({k.source, k.meshDim});
  for (;;) {
    const size_t before = firstRank_.size();
    std::vector<std::vector<uint32_t>> signatures(classOf_.size());
    for (size_t r = 0; r < signatures.size(); ++r) signatures[r] = {classOf_[r]};
    // Once numbered, classes only split: a signature begins with the old class.
    if (before > 0)
      for (const auto &[placement, dim] : groups) {
        const Placement &p = placements_[placement];
        const std::vector<std::vector<uint32_t>> sets = groupSets(p, dim);
        for (size_t i = 0; i < p.ranks.size(); ++i) {
          std::vector<uint32_t> &s = signatures[static_cast<size_t>(p.ranks[i])];
          s.push_back(UINT32_MAX); // between lists
          s.insert(s.end(), sets[i].begin(), sets[i].end());
        }
      }
    number(signatures);
    if (firstRank_.size() == before) return;
  }
}

void RankClasses::number(const std::vector<std::vector<uint32_t>> &signatures) {
  std::map<std::vector<uint32_t>, uint32_t> known;
  firstRank_.clear();
  ranks_.clear();
  for (size_t r = 0; r < signatures.size(); ++r) {
    const auto [it, isNew] = known.emplace(signatures[r], static_cast<uint32_t>(known.size()));
    classOf_[r] = it->second;
    if (isNew) {
      firstRank_.push_back(static_cast<int64_t>(r));
      ranks_.push_back(0);
    }
    ++ranks_[it->second];
  }
}

std::vector<std::vector<uint32_t>> RankClasses::groupSets(const Placement &placement, int32_t meshDim) const {
  std::vector<std::vector<uint32_t>> sets(placement.ranks.size());
  for (int64_t p = 0; p < placement.size(); ++p) {
    if (placement.coordinates(p)[static_cast<size_t>(meshDim)] != 0) continue;
    const std::vector<int64_t> group = placement.group(p, meshDim);
    std::vector<uint32_t> set;
    for (int64_t g : group) set.push_back(classOf(placement.ranks[static_cast<size_t>(g)]));
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    for (int64_t g : group) sets[static_cast<size_t>(g)] = set;
  }
  return sets;
}

std::vector<uint32_t> RankClasses::met(uint32_t c, const GroupKind &kind) const {
  std::vector<uint32_t> set;
  const auto add = [&](const Placement &p, const std::vector<int64_t> &positions) {
    for (int64_t i : positions) set.push_back(classOf(p.ranks[static_cast<size_t>(i)]));
  };
  const Placement &source = placements_[kind.source];
  if (kind.meshDim >= 0) {
    if (const auto position = source.positionOf(firstRank(c))) add(source, source.group(*position, kind.meshDim));
  } else {
    for (const Placement *p : {&source, &placements_[kind.target]})
      for (int64_t rank : p->ranks) set.push_back(classOf(rank));
  }
  set.push_back(c);
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return set;
}

} // namespace opc::simulate
