// Findings as JUnit reads them: what has passed is counted, too.
// SPDX-License-Identifier: Apache-2.0
#include "CheckFormats.h"

#include <algorithm>
#include <map>

namespace opc::cli {

namespace {

/// Text of an attribute or element. XML 1.0 has no place for most control characters: they become '?'.
std::string xml(const std::string &bytes) {
  // What is no UTF-8 is replaced, as in JSON.
  const std::string text = Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace));
  std::string out;
  for (const char c : text) {
    switch (c) {
    case '&': out += "&amp;"; break;
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '"': out += "&quot;"; break;
    case '\n': out += "&#10;"; break;
    case '\t': out += "&#9;"; break;
    default: out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return out;
}

std::string placeOf(const GraphFinding &f) {
  std::string text = f.range.file.empty() ? f.graph : f.range.file;
  if (f.range.known()) text += ":" + std::to_string(f.range.line) + ":" + std::to_string(f.range.column);
  return text;
}

struct Suite {
  std::map<std::string, std::vector<GraphFinding>> cases; // by rule; empty: passed
  size_t failures = 0;
};

Suite suiteOf(const GraphReport &graph) {
  Suite suite;
  for (const std::string &rule : graph.rules) suite.cases[rule];
  for (const GraphFinding &f : graph.findings) suite.cases[f.rule].push_back(f);
  if (suite.cases.empty()) suite.cases["GRAPH_INVALID"]; // that it can be compiled was looked at, in any case
  for (const auto &one : suite.cases)
    suite.failures += std::any_of(one.second.begin(), one.second.end(),
                                  [](const GraphFinding &f) { return f.severity == Severity::kError; });
  return suite;
}

std::string caseText(const std::string &graph, const std::string &rule, const std::vector<GraphFinding> &findings) {
  std::string text = "    <testcase classname=\"" + xml(graph) + "\" name=\"" + xml(rule) + "\"";
  if (findings.empty()) return text + "/>\n";
  text += ">\n";
  std::string failures, notes;
  const GraphFinding *first = nullptr; // that is an error
  for (const GraphFinding &f : findings) {
    const std::string about = subjectText(f);
    std::string &to = f.severity == Severity::kError ? failures : notes;
    if (!first && f.severity == Severity::kError) first = &f;
    to += placeOf(f) + ": " + (about.empty() ? "" : about + ": ") + f.message + "\n";
    if (!f.help.empty()) to += "help: " + f.help + "\n";
  }
  if (first)
    text += "      <failure type=\"" + xml(rule) + "\" message=\"" + xml(first->message) + "\">" + xml(failures) +
            "</failure>\n";
  if (!notes.empty()) text += "      <system-out>" + xml(notes) + "</system-out>\n";
  return text + "    </testcase>\n";
}

} // namespace

/// https://github.com/testmoapp/junitxml describes what readers take.
std::string junitText(const CheckReport &report) {
  std::string suites;
  size_t tests = 0, failures = 0;
  for (const GraphReport &graph : report.graphs) {
    const Suite suite = suiteOf(graph);
    suites += "  <testsuite name=\"" + xml(graph.graph) + "\" tests=\"" + std::to_string(suite.cases.size()) +
              "\" failures=\"" + std::to_string(suite.failures) + "\" errors=\"0\" skipped=\"0\">\n";
    for (const auto &one : suite.cases) suites += caseText(graph.graph, one.first, one.second);
    suites += "  </testsuite>\n";
    tests += suite.cases.size();
    failures += suite.failures;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"opc check\" tests=\"" + std::to_string(tests) +
         "\" failures=\"" + std::to_string(failures) + "\" errors=\"0\">\n" + suites + "</testsuites>\n";
}

} // namespace opc::cli
