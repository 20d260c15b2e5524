// The difference of two graphs as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphComparison.h"
#include "JsonOutput.h"

#include <array>
#include <string>

namespace opc::cli {

/// What a finding is about, for counts and for --ignore. What is renamed or reordered is of one group.
enum class ChangeGroup { kStructure, kNames, kGradient, kStates, kCost };
ChangeGroup changeGroupOf(const GraphFinding &finding);

struct DiffReport {
  std::string a, b; // what the two are called
  GraphDifference difference;

  bool same() const { return difference.findings.empty(); }
  /// How many findings there are of a group.
  size_t count(ChangeGroup group) const;
};

/// "3 structural, 1 sbp, 2 cost changes; gradient graph: 1 op differs"; of graphs that do not differ how much agrees.
std::string diffSummary(const DiffReport &report);
/// How often each rule was broken.
std::string diffStatText(const DiffReport &report);
/// A line for each finding; at most `perRule` of each rule.
std::string diffText(const DiffReport &report, size_t perRule, size_t width);
Json diffJson(const DiffReport &report);

} // namespace opc::cli
