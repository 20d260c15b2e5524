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
  /// An op whose work is graphs, which have no code in a plan.
  void addGraphsOf(std::string op) { facts_.graphs.push_back(std::move(op)); }
  const NativeFacts &facts() const { return facts_; }

private:
  uint32_t codeOf(const Region &loop, plan::Plan *plan);

  const std::shared_ptr<RegionImager> imager_;
  const std::vector<CodeLevel> levels_;
  std::map<std::string, uint32_t> known_; // by regionKey(): the plan's code + 1, or 0
  NativeFacts facts_;
};

} // namespace opc
