// Machine code of a plan's regions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeLevel.h"
#include "NativeFacts.h"
#include "Region.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace opc {

class RegionImager;
namespace plan {
class NativeCode;
class Plan;
class Task;
} // namespace plan

/// Gives the tasks of a plan images of their loops, equal loops the same ones. What has no image is interpreted.
class NativeEmitter {
public:
  /// `levels`: the lowest first.
  NativeEmitter(std::shared_ptr<RegionImager> imager, std::vector<CodeLevel> levels)
      : imager_(std::move(imager)), levels_(std::move(levels)) {}

  /// `plan` is the whole one, `task` one of it or of its parts.
  void add(const std::shared_ptr<const Region> &region, plan::Plan *plan, plan::Task *task);
  /// The graph of an op, a plan by itself with code for its loops: that becomes the whole plan's.
  void adopt(plan::Plan *graph, plan::Plan *plan);
  /// What another one found out that emits such a graph.
  void addFacts(const NativeFacts &graph);
  const NativeFacts &facts() const { return facts_; }
  const std::shared_ptr<RegionImager> &imager() const { return imager_; }
  const std::vector<CodeLevel> &levels() const { return levels_; }

private:
  uint32_t codeOf(const Region &loop, plan::Plan *plan);
  uint32_t put(plan::NativeCode code, plan::Plan *plan);

  const std::shared_ptr<RegionImager> imager_;
  const std::vector<CodeLevel> levels_;
  std::map<std::string, uint32_t> known_; // by regionKey(): the plan's code + 1, or 0
  std::map<uint64_t, uint32_t> byRegion_; // the same by the code's `region`
  NativeFacts facts_;
};

} // namespace opc
