// Everything about a graph on one page.
// SPDX-License-Identifier: Apache-2.0
#include "GraphPage.h"

#include "CompileReport.h"
#include "CostReport.h"
#include "FactNodes.h"
#include "GraphDrawing.h"
#include "HtmlPage.h"
#include "Markup.h"
#include "MeshFlags.h"
#include "NumberText.h"
#include "TextParts.h"

#include <cmath>

namespace opc::cli {

namespace {

/// Lines of text; each is made safe by itself, since line ends are what parts them.
std::string preformatted(const std::string &text) {
  std::string out = "<pre tabindex=\"0\">";
  for (const std::string &line : splitAt(text, '\n')) out += markupText(line) + "\n";
  return out + "</pre>\n";
}

std::string cell(const std::string &text) { return "<td>" + markupText(text) + "</td>"; }

std::string scrolled(const std::string &svg) { return "<div class=\"scroll\" tabindex=\"0\">" + svg + "</div>\n"; }

std::string summaryTable(const GraphFacts &facts) {
  std::string out = "<table><thead><tr><th>what</th><th>name</th><th>type</th></tr></thead><tbody>\n";
  const auto add = [&](const char *kind, const std::vector<GraphTensor> &tensors) {
    for (const GraphTensor &t : tensors)
      out += "<tr>" + cell(kind) + cell(t.name) + cell(tensorTypeText(t)) + "</tr>\n";
  };
  add("input", facts.inputs);
  add("output", facts.outputs);
  add("variable", facts.variables);
  return out + "</tbody></table>\n";
}

std::string opsTable(const GraphFacts &facts) {
  std::string out =
      "<input class=\"search\" type=\"search\" aria-label=\"search the ops\" placeholder=\"search\">\n<table><thead><tr>"
      "<th>op</th><th>type</th><th>outputs</th><th>flops</th><th>bytes</th><th>place</th></tr></thead><tbody>\n";
  for (const GraphOp &op : facts.ops) {
    const auto count = [](double n) { return countText(static_cast<uint64_t>(std::llround(n))); };
    out += "<tr>" + cell(op.name) + cell(op.type) + cell(joined(op.outputs, " ", tensorTypeText)) +
           cell(count(op.flops)) + cell(count(op.bytes)) +
           cell(op.range.known() ? concat(op.range.file, ":", op.range.line) : "") + "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

} // namespace

std::string graphHtml(const GraphFacts &facts, const std::string &name) {
  HtmlPage page(name, facts.format + ", " + countText(facts.ops.size(), "op"));
  const bool planned = !facts.memory.slots.empty();
  page.add("summary", "Summary", (facts.costs.flops > 0 ? preformatted(costText(facts, 0)) : "") + summaryTable(facts));
  page.add("graph", "Graph", scrolled(graphSvg(facts, name)));
  page.add("ops", "Ops", opsTable(facts));
  if (planned)
    page.add("memory", "Memory", scrolled(memorySvg(facts.memory, name)) + preformatted(memoryText(facts.memory)));
  if (!facts.mesh.ops.empty()) {
    MeshFacts mesh = facts.mesh;
    mesh.planningSeconds = 0; // differs from run to run
    page.add("sbp", "SBP", preformatted(sbpText(mesh)) + preformatted(boxingText(mesh)));
  }
  if (!facts.tasks.empty()) page.add("tasks", "Tasks", preformatted(tasksText(facts, 0)));
  return page.text();
}

} // namespace opc::cli
