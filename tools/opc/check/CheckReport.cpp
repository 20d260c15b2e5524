// What a check has found, as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "CheckReport.h"

#include "DiagnosticText.h"
#include "ExitCodes.h"
#include "NumberText.h"
#include "Rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace opc::cli {

std::vector<GraphFinding> CheckReport::sorted() const {
  std::vector<GraphFinding> all;
  for (const GraphReport &g : graphs) all.insert(all.end(), g.findings.begin(), g.findings.end());
  std::stable_sort(all.begin(), all.end(), [](const GraphFinding &a, const GraphFinding &b) {
    const bool x = !a.range.known(), y = !b.range.known(); // what is about the whole graph comes last
    return std::tie(a.severity, a.graph, x, a.range.line, a.range.column) <
           std::tie(b.severity, b.graph, y, b.range.line, b.range.column);
  });
  return all;
}

bool GraphReport::has(Severity severity) const {
  return std::any_of(findings.begin(), findings.end(), [&](const GraphFinding &f) { return f.severity == severity; });
}

GraphFinding &GraphReport::add(const char *rule, std::string message, std::string help) {
  GraphFinding &f = findings.emplace_back();
  f.rule = rule;
  f.graph = graph;
  f.message = std::move(message);
  f.help = std::move(help);
  return f;
}

size_t CheckReport::count(Severity severity) const {
  size_t n = 0;
  for (const GraphReport &g : graphs)
    n += static_cast<size_t>(std::count_if(g.findings.begin(), g.findings.end(),
                                           [&](const GraphFinding &f) { return f.severity == severity; }));
  return n;
}

int CheckReport::exitCode() const {
  int worst = count(Severity::kError) ? kExitNo : kExitOk;
  for (const GraphReport &g : graphs) worst = std::max(worst, g.exitCode);
  return worst;
}

ShownPlace shownPlace(const GraphFinding &f) {
  if (f.range.file.empty() || f.range.file == f.graph) return {f.graph, f.range};
  // What is gone has its place in the older graph.
  if (f.change == ChangeKind::kRemoved) return {f.graph, SourceRange()};
  return {f.range.file, f.range};
}

std::string subjectText(const GraphFinding &f) {
  if (f.op.empty()) return f.tensor.empty() ? "" : "tensor " + f.tensor;
  switch (f.subject) {
  case ChangeSubject::kInput: return "input " + f.op;
  case ChangeSubject::kOutput: return "output " + f.op;
  case ChangeSubject::kVariable: return "variable " + f.op;
  default: return "op " + f.op;
  }
}

namespace {

Diagnostic diagnosticOf(const GraphFinding &f) {
  Diagnostic d;
  d.severity = f.severity;
  d.code = f.rule;
  const std::string about = subjectText(f);
  d.message = about.empty() ? f.message : about + ": " + f.message;
  d.subject = about;
  d.range = f.range;
  if (d.range.file.empty()) d.range.file = f.graph;
  d.help = f.help;
  return d;
}

} // namespace

ReportTexts::ReportTexts(const CheckReport &report) {
  for (const GraphReport &g : report.graphs) texts_.try_emplace(g.graph, SourceText{g.graph, g.text});
}

const SourceText &ReportTexts::of(const GraphFinding &f) const {
  const auto found = texts_.find(f.range.file.empty() ? f.graph : f.range.file);
  return found == texts_.end() ? none_ : found->second;
}

std::string checkText(const CheckReport &report, bool color, int width) {
  const ReportTexts texts(report);
  std::set<std::string> explained; // one pointer to the long text for each rule is enough
  std::string text;
  for (const GraphFinding &f : report.sorted())
    text += diagnosticText(diagnosticOf(f), texts.of(f), {color, width}, explained.insert(f.rule).second) + "\n";
  return text;
}

std::string checkSummary(const CheckReport &report) {
  const auto graphs =
      std::count_if(report.graphs.begin(), report.graphs.end(), [](const auto &g) { return g.isGraph; });
  std::string text = "checked " + countText(graphs, "graph") + ": ";
  std::string counts;
  const std::pair<Severity, const char *> kinds[] = {
      {Severity::kError, "error"}, {Severity::kWarning, "warning"}, {Severity::kNote, "note"}};
  for (const auto &[severity, noun] : kinds)
    if (const size_t n = report.count(severity)) counts += (counts.empty() ? "" : ", ") + countText(n, noun);
  return text + (counts.empty() ? "no finding" : counts);
}

Json findingJson(const GraphFinding &f) {
  const Rule *rule = findRule(f.rule);
  Json j = {{"rule", f.rule},
            {"category", rule ? ruleCategoryName(rule->category) : ruleCategoryName(RuleCategory::kAlways)},
            {"severity", severityName(f.severity)},
            {"graph", f.graph},
            {"op", f.op},
            {"tensor", f.tensor}};
  j["source"] = nullptr;
  if (f.range.known()) j["source"] = {{"file", f.range.file}, {"line", f.range.line}, {"column", f.range.column}};
  j["message"] = f.message;
  j["expected"] = f.expected;
  j["found"] = f.found;
  j["help"] = f.help;
  return j;
}

Json checkJson(const CheckReport &report) {
  Json findings = Json::array(), graphs = Json::array();
  for (const GraphFinding &f : report.sorted()) findings.push_back(findingJson(f));
  for (const GraphReport &g : report.graphs)
    if (g.isGraph) graphs.push_back({{"graph", g.graph}, {"lock_written", g.changed}});
  return {{"schema", 1},
          {"exit", report.exitCode()},
          {"graphs", std::move(graphs)},
          {"errors", report.count(Severity::kError)},
          {"warnings", report.count(Severity::kWarning)},
          {"notes", report.count(Severity::kNote)},
          {"findings", std::move(findings)}};
}

} // namespace opc::cli
