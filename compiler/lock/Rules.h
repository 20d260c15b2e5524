// The rules of `opc check`: their names, what they belong to, how much they count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "Lock.h"

#include <optional>
#include <string>
#include <vector>

namespace opc {

/// Each has the rules of those before it; rules of the last are always on.
enum class RuleCategory { kInterface, kSemantic, kParallel, kCost, kExact, kAlways };
const char *ruleCategoryName(RuleCategory category);
std::optional<RuleCategory> parseRuleCategory(const std::string &name);

struct Rule {
  const char *name;
  RuleCategory category;
  Severity severity;
  std::optional<LockSection> section; // of the lock, that it compares
  const char *doc;                    // one line
  bool isRatchet = false;             // a number that may fall
};
/// By category, in the order in which a graph is looked at.
const std::vector<Rule> &allRules();
/// Null when there is no such rule.
const Rule *findRule(const std::string &name);

} // namespace opc
