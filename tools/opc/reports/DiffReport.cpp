// The difference of two graphs as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "DiffReport.h"

#include "DiagnosticText.h"
#include "NumberText.h"
#include "PrintableText.h"
#include "TextTable.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace opc::cli {

namespace {

struct GroupName {
  ChangeGroup group;
  const char *name;
};
constexpr GroupName kGroups[] = {{ChangeGroup::kStructure, "structural"},
                                 {ChangeGroup::kNames, "names"},
                                 {ChangeGroup::kGradient, "gradient"},
                                 {ChangeGroup::kStates, "sbp"},
                                 {ChangeGroup::kCost, "cost"}};

const char *groupName(ChangeGroup group) {
  for (const GroupName &g : kGroups)
    if (g.group == group) return g.name;
  return "";
}

/// What stands in the first column.
const char *subjectName(ChangeSubject subject) {
  switch (subject) {
  case ChangeSubject::kInput: return "input";
  case ChangeSubject::kOutput: return "output";
  case ChangeSubject::kVariable: return "variable";
  case ChangeSubject::kTensor: return "tensor";
  case ChangeSubject::kGradient: return "grad";
  case ChangeSubject::kStates: return "sbp";
  case ChangeSubject::kTransition: return "boxing";
  case ChangeSubject::kKernel: return "kernel";
  case ChangeSubject::kCost: return "cost";
  case ChangeSubject::kOp: break;
  }
  return "op";
}

const char *mark(ChangeKind change) {
  return change == ChangeKind::kAdded ? "+" : change == ChangeKind::kRemoved ? "-" : "~";
}

std::string placeOf(const SourceRange &range) {
  if (!range.known()) return "";
  return range.file + ":" + std::to_string(range.line) + ":" + std::to_string(range.column);
}

std::map<std::string, size_t> countsByRule(const std::vector<GraphFinding> &findings) {
  std::map<std::string, size_t> counts;
  for (const GraphFinding &f : findings) ++counts[f.rule];
  return counts;
}

} // namespace

ChangeGroup changeGroupOf(const GraphFinding &f) {
  if (f.subject == ChangeSubject::kGradient) return ChangeGroup::kGradient;
  if (f.change == ChangeKind::kRenamed || f.change == ChangeKind::kReordered) return ChangeGroup::kNames;
  if (f.subject == ChangeSubject::kStates || f.subject == ChangeSubject::kTransition) return ChangeGroup::kStates;
  if (f.subject == ChangeSubject::kKernel || f.subject == ChangeSubject::kCost) return ChangeGroup::kCost;
  return ChangeGroup::kStructure;
}

size_t DiffReport::count(ChangeGroup group) const {
  return static_cast<size_t>(std::count_if(difference.findings.begin(), difference.findings.end(),
                                           [&](const GraphFinding &f) { return changeGroupOf(f) == group; }));
}

std::string diffSummary(const DiffReport &report) {
  const GraphDifference &d = report.difference;
  const std::string moved = d.reordered ? countText(d.reordered) + " of " + countText(d.paired) + " reordered" : "";
  const auto isRenamed = [](const GraphFinding &f) { return f.change == ChangeKind::kRenamed; };
  const auto renamed = static_cast<size_t>(std::count_if(d.findings.begin(), d.findings.end(), isRenamed));
  if (report.same()) return "no difference" + (moved.empty() ? "" : "; " + moved);
  if (report.count(ChangeGroup::kNames) == d.findings.size())
    return "renamed/reordered only: " + countText(renamed) + " of " + countText(d.paired) + " renamed" +
           (moved.empty() ? "" : ", " + moved);
  std::vector<std::string> parts;
  size_t changes = 0;
  for (const GroupName &g : kGroups)
    if (const size_t n = report.count(g.group);
        n && g.group != ChangeGroup::kGradient && g.group != ChangeGroup::kNames) {
      parts.push_back(countText(n) + " " + g.name);
      changes += n;
    }
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i ? ", " : "") + parts[i];
  if (!text.empty()) text += changes == 1 ? " change" : " changes";
  const auto add = [&](const std::string &part) { text += (text.empty() ? "" : "; ") + part; };
  if (renamed) add(countText(renamed) + " renamed");
  if (!moved.empty()) add(moved);
  if (const size_t n = report.count(ChangeGroup::kGradient)) add("gradient graph: " + countText(n, "change"));
  if (d.quality < 1) add(roundedText(std::floor(1e4 * d.quality) / 100, 4) + " % matched");
  return text;
}

std::string diffStatText(const DiffReport &report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto &[rule, n] : countsByRule(report.difference.findings)) rows.push_back({countText(n), rule});
  return textTable(rows) + diffSummary(report) + "\n";
}

std::string diffText(const DiffReport &report, size_t perRule, size_t width) {
  std::vector<std::vector<std::string>> rows;
  std::map<std::string, size_t> shown;
  const std::map<std::string, size_t> counts = countsByRule(report.difference.findings);
  for (const GraphFinding &f : report.difference.findings) {
    const size_t n = ++shown[f.rule];
    if (n > perRule) continue;
    const std::string name = f.tensor.empty() ? f.op : f.tensor;
    rows.push_back({subjectName(f.subject), mark(f.change), printableName(name.empty() ? "-" : name),
                    printableName(f.message), printableName(placeOf(f.range))});
    if (n == perRule && counts.at(f.rule) > perRule)
      rows.push_back(
          {"", "", "... and " + countText(counts.at(f.rule) - perRule) + " more", f.rule, "--full lists all"});
  }
  return textTable(rows, width) + diffSummary(report) + "\n";
}

Json diffJson(const DiffReport &report) {
  const GraphDifference &d = report.difference;
  Json counts = Json::object(), findings = Json::array();
  for (const GroupName &g : kGroups) counts[g.name] = report.count(g.group);
  for (const GraphFinding &f : d.findings) {
    Json source = nullptr;
    if (f.range.known()) source = {{"file", f.range.file}, {"line", f.range.line}, {"column", f.range.column}};
    findings.push_back({{"rule", f.rule},
                        {"kind", groupName(changeGroupOf(f))},
                        {"severity", severityName(f.severity)},
                        {"op", f.op},
                        {"tensor", f.tensor},
                        {"source", std::move(source)},
                        {"message", f.message},
                        {"expected", f.expected},
                        {"found", f.found},
                        {"help", f.help}});
  }
  return {{"schema", 1},
          {"a", report.a},
          {"b", report.b},
          {"same", report.same()},
          {"summary", diffSummary(report)},
          {"paired", d.paired},
          {"renamed", d.renamed},
          {"reordered", d.reordered},
          {"quality", d.quality},
          {"counts", std::move(counts)},
          {"findings", std::move(findings)}};
}

} // namespace opc::cli
