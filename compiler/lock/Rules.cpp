// The rules of `opc check`.
// SPDX-License-Identifier: Apache-2.0
#include "Rules.h"

#include <algorithm>
#include <array>

namespace opc {
namespace {

constexpr std::array<const char *, 6> kCategories = {"INTERFACE", "SEMANTIC", "PARALLEL", "COST", "EXACT", "ALWAYS"};

} // namespace

const char *ruleCategoryName(RuleCategory category) { return kCategories[static_cast<size_t>(category)]; }

std::optional<RuleCategory> parseRuleCategory(const std::string &name) {
  const auto found = std::find(kCategories.begin(), kCategories.end(), name);
  if (found == kCategories.end()) return std::nullopt;
  return static_cast<RuleCategory>(found - kCategories.begin());
}

const std::vector<Rule> &allRules() {
  using enum RuleCategory;
  constexpr Severity error = Severity::kError, warning = Severity::kWarning;
  static const std::vector<Rule> rules = {
      {"INPUT_REMOVED", kInterface, error, LockSection::kInterface, "an input is gone, or has another name"},
      {"INPUT_TYPE_CHANGED", kInterface, error, LockSection::kInterface, "an input has another shape or element type"},
      {"OUTPUT_REMOVED", kInterface, error, LockSection::kInterface, "an output is gone, or has another name"},
      {"OUTPUT_TYPE_CHANGED", kInterface, error, LockSection::kInterface,
       "an output has another shape or element type"},
      {"VARIABLE_REMOVED", kInterface, error, LockSection::kInterface, "a variable is gone, or has another name"},
      {"VARIABLE_TYPE_CHANGED", kInterface, error, LockSection::kInterface,
       "a variable has another shape or element type"},
      {"IO_ORDER_CHANGED", kInterface, error, LockSection::kInterface, "inputs or outputs stand in another order"},
      {"OP_ADDED", kSemantic, error, LockSection::kOps, "there is an op, input, output or variable that was not there"},
      {"OP_REMOVED", kSemantic, error, LockSection::kOps, "an op is gone"},
      {"OP_RENAMED", kSemantic, error, LockSection::kOps, "an op has another name and is the same otherwise"},
      {"OP_TYPE_CHANGED", kSemantic, error, LockSection::kOps, "an op is of another type"},
      {"OP_ATTR_CHANGED", kSemantic, error, LockSection::kOps, "an attribute of an op or variable has another value"},
      {"EDGE_CHANGED", kSemantic, error, LockSection::kOps, "an op or output reads another tensor"},
      {"TENSOR_TYPE_CHANGED", kSemantic, error, LockSection::kTensors, "a tensor has another shape or element type"},
      {"GRAD_MISSING", kSemantic, error, LockSection::kGrad, "a variable has lost its gradient"},
      {"GRAD_CHANGED", kSemantic, error, LockSection::kGrad, "the ops of the backward pass or of the optimizer differ"},
      {"NUMERIC_MISMATCH", kSemantic, error, LockSection::kNumerics, "an output differs by more than its tolerance"},
      {"NONFINITE", kSemantic, error, LockSection::kNumerics, "an output has values that are not finite"},
      {"DEAD_OP", kSemantic, warning, {}, "nothing that the graph gives depends on an op"},
      {"UNUSED_INPUT", kSemantic, warning, {}, "no op reads an input or variable"},
      {"NUMERIC_HAZARD", kSemantic, warning, {}, "an op loses digits where another would not"},
      {"GRAPH_REMOVED", kInterface, error, {}, "the revision has a graph that is gone (--against)"},
      {"GRAPH_ADDED", kSemantic, Severity::kNote, {}, "the revision does not have the graph (--against)"},
      {"SBP_CHANGED", kParallel, error, LockSection::kSbp, "an op has another signature on the mesh"},
      {"PLACEMENT_CHANGED", kParallel, error, LockSection::kSbp, "an op is placed on other devices"},
      {"BOXING_ADDED", kParallel, error, LockSection::kBoxing, "a tensor is transferred that was not"},
      {"BOXING_REMOVED", kParallel, error, LockSection::kBoxing, "a tensor is not transferred any more"},
      {"BOXING_GREW", kParallel, error, LockSection::kBoxing, "a tensor's transfer sends more bytes", true},
      {"COMM_BYTES_GREW", kParallel, error, LockSection::kCost, "more bytes are sent in a step", true},
      {"PEAK_MEMORY_GREW", kCost, error, LockSection::kCost, "a device needs more memory", true},
      {"FLOPS_GREW", kCost, error, LockSection::kCost, "a step needs more arithmetic", true},
      {"TASKS_GREW", kCost, error, LockSection::kCost, "a step has more tasks", true},
      {"KERNEL_CHANGED", kCost, warning, LockSection::kTasks, "an op is computed by another kernel"},
      {"KERNEL_FALLBACK", kCost, warning, LockSection::kTasks, "an op is computed by a kernel of lower priority"},
      {"WARNING_ADDED", kCost, warning, LockSection::kDiagnostics,
       "the compiler warns of something that it did not warn of"},
      {"SCHEDULE_CHANGED", kExact, error, LockSection::kTasks, "kernels run in another order"},
      {"IR_HASH_CHANGED", kExact, error, LockSection::kTasks, "the compiler has made something else of the graph"},
      {"NONDETERMINISTIC", kAlways, error, {}, "two compilations, or two runs, of one graph differ (--twice)"},
      {"GRAPH_INVALID", kAlways, error, {}, "the graph cannot be compiled"},
      {"RUN_FAILED", kAlways, error, {}, "the graph cannot be run"},
      {"INTERNAL_ERROR", kAlways, error, {}, "opc broke off while it checked the graph"},
      {"LOCK_MISSING", kAlways, error, {}, "there is no lock beside the graph"},
      {"LOCK_STALE", kAlways, error, {}, "the lock was edited by hand, or lacks a section"},
      {"LOCK_DAMAGED", kAlways, error, {}, "the lock cannot be read"},
      {"LOCK_SHARED", kAlways, error, {}, "two graphs would have one lock"},
      {"LOCK_NEWER_THAN_TOOL", kAlways, error, {}, "the lock was written by a newer opc"},
      {"LOCK_UNREFERENCED", kAlways, warning, {}, "a lock has no graph beside it"},
      {"PLUGIN_NOT_LOADED", kAlways, warning, {}, "the settings of the tree that is checked name a plugin"},
  };
  return rules;
}

const Rule *findRule(const std::string &name) {
  for (const Rule &rule : allRules())
    if (name == rule.name) return &rule;
  return nullptr;
}

} // namespace opc
