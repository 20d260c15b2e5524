// What a check has found, as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFinding.h"
#include "JsonOutput.h"

#include <map>
#include <string>
#include <vector>

namespace opc::cli {

/// What was found in one graph.
struct GraphReport {
  std::string graph; // the file
  std::vector<GraphFinding> findings;
  int exitCode = 0;                    // of what stopped the work on it: 3 to 5 or 70
  bool changed = false;                // the lock was written
  bool isGraph = true;                 // false: a lock without one, or settings, of which there are findings, too
  std::vector<std::string> rules = {}; // that were looked at, where there is a lock
  std::string text = {};               // of the file, where something was found in it
  bool has(Severity severity) const;
  GraphFinding &add(const char *rule, std::string message, std::string help);
};

struct CheckReport {
  std::vector<GraphReport> graphs;

  /// Most severe first, then by file and line.
  std::vector<GraphFinding> sorted() const;
  size_t count(Severity severity) const;
  /// The worst class: 70, 5, 4, 3, then 1 when there is an error, else 0.
  int exitCode() const;
};

/// A file's text, where a report has it: the lines that findings are about.
class ReportTexts {
public:
  explicit ReportTexts(const CheckReport &report);
  /// Of the finding's place; without text where there is none.
  const SourceText &of(const GraphFinding &finding) const;

private:
  std::map<std::string, SourceText> texts_; // by file
  SourceText none_;
};

/// Findings with their place and the way out; the graph's line is shown where the file can be read.
std::string checkText(const CheckReport &report, bool color, int width);
/// "checked 3 graphs: 1 error, 2 warnings": what is no graph has findings, and is not counted.
std::string checkSummary(const CheckReport &report);
Json checkJson(const CheckReport &report);
/// The file and line for what shows findings beside the code: a place in the older graph is not there.
struct ShownPlace {
  std::string file;
  SourceRange range; // of that file, where it is known
};
ShownPlace shownPlace(const GraphFinding &finding);
/// "input x", "op fc1"; empty for what is about the whole graph.
std::string subjectText(const GraphFinding &finding);
Json findingJson(const GraphFinding &finding);

} // namespace opc::cli
