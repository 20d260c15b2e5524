// Everything about a graph on one page.
// SPDX-License-Identifier: Apache-2.0
#include "GraphPage.h"

#include "CompileReport.h"
#include "CostReport.h"
#include "FactNodes.h"
#include "HtmlPage.h"
#include "Markup.h"
#include "MeshFlags.h"
#include "NumberText.h"
#include "PageData.h"
#include "TextParts.h"

namespace opc::cli {

namespace {

std::string summaryPart(const GraphFacts &facts) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const char *kind, const std::vector<GraphTensor> &tensors) {
    for (const GraphTensor &t : tensors) rows.push_back({kind, t.name, tensorTypeText(t)});
  };
  add("input", facts.inputs);
  add("output", facts.outputs);
  add("variable", facts.variables);
  return (facts.costs.flops > 0 ? htmlLines(costText(facts, 0)) : "") + htmlTable({"what", "name", "type"}, rows);
}

std::string phasesPart(const GraphPage &page) {
  std::vector<std::vector<std::string>> rows;
  double total = 0;
  for (const PhaseFacts &p : page.facts.phases) {
    rows.push_back({p.name, p.doc, countText(p.ops)});
    if (page.showsTimes) rows.back().push_back(secondsText(p.seconds));
    total += p.seconds;
  }
  if (page.showsTimes) rows.push_back({"total", "", "", secondsText(total)});
  std::vector<std::string> heads = {"phase", "what it does", "ops behind it"};
  if (page.showsTimes) heads.push_back("time");
  return htmlTable(heads, rows) +
         (page.showsTimes ? "" : "<p class=\"dim\">--timing adds the times, which differ from run to run.</p>\n");
}

std::string checksPart(const GraphPage &page) {
  const std::string against = page.checkedAgainst.empty()
                                  ? "The graph by itself; no lock lies beside it."
                                  : "The graph, and what differs from " + page.checkedAgainst + ".";
  const std::string lead = "<p class=\"dim\">" + markupText(against) + "</p>\n";
  return lead + (page.findings->empty() ? "<p>Nothing was found.</p>\n" : findingsTable(*page.findings));
}

/// Mesh, cost and proof; the script adds tables. The time that planning took differs from run to run.
std::string statesPart(MeshFacts mesh) {
  mesh.planningSeconds = 0;
  std::string lead;
  for (const std::string &line : splitAt(sbpText(mesh), '\n')) {
    if (line.empty()) break;
    lead += line + "\n";
  }
  return htmlLines(lead);
}

const char *severityName(Severity severity) {
  switch (severity) {
  case Severity::kError: return "error";
  case Severity::kWarning: return "warning";
  case Severity::kNote: break;
  }
  return "note";
}

} // namespace

std::string findingsTable(const std::vector<GraphFinding> &findings) {
  std::vector<std::vector<std::string>> rows;
  for (const GraphFinding &f : findings) {
    std::string place;
    if (f.range.known()) place = concat(f.range.file, ":", f.range.line, ":", f.range.column);
    rows.push_back({f.rule, severityName(f.severity), f.tensor.empty() ? f.op : f.tensor, f.message, place});
  }
  return "<input class=\"search rows\" type=\"search\" aria-label=\"search the findings\" placeholder=\"search the "
         "findings\">\n" +
         htmlTable({"rule", "severity", "op or tensor", "what", "place"}, rows);
}

std::string graphHtml(const GraphPage &p) {
  HtmlPage page(p.name, p.facts.format + ", " + countText(p.facts.ops.size(), "op"),
                pageData(p.facts, p.marks, p.timelines));
  for (const GraphPage::Part &part : p.first) page.add(part.id, part.label, part.body);
  page.add("summary", "Summary", summaryPart(p.facts));
  page.add("graph", "Graph");
  page.add("ops", "Ops");
  if (!p.facts.memory.slots.empty()) page.add("memory", "Memory");
  if (!p.timelines.empty()) page.add("timeline", "Timeline");
  if (!p.facts.mesh.ops.empty()) page.add("sbp", "SBP", statesPart(p.facts.mesh));
  if (!p.facts.tasks.empty()) page.add("tasks", "Tasks");
  if (!p.facts.phases.empty()) page.add("phases", "Phases", phasesPart(p));
  if (p.findings) page.add("checks", "Checks", checksPart(p));
  return page.text();
}

} // namespace opc::cli
