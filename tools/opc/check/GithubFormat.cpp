// Findings as GitHub shows them: workflow commands for annotations, a table for the summary of a step.
// SPDX-License-Identifier: Apache-2.0
#include "CheckFormats.h"

#include "NumberText.h"

namespace opc::cli {

namespace {

/// As the runner reads it back: %25, %0D, %0A, and in properties %3A and %2C as well. What a terminal would take for a
/// command of its own does not pass either.
std::string escaped(const std::string &text, bool isProperty) {
  std::string out;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (isProperty && (c == ':' || c == ','));
    const auto byte = static_cast<unsigned char>(c);
    if (special || byte < 0x20 || byte == 0x7f) {
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 15];
    } else {
      out += c;
    }
  }
  return out;
}

const char *levelName(Severity severity) {
  return severity == Severity::kError ? "error" : severity == Severity::kWarning ? "warning" : "notice";
}

std::string messageOf(const GraphFinding &f) {
  const std::string about = subjectText(f);
  return about.empty() ? f.message : about + ": " + f.message;
}

/// Text that a cell of a table shows as it is: no markup, no HTML, no new line.
std::string cell(const std::string &text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '\n' || c == '\r' || static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else if (std::string("|`*_[]\\!#~@>").find(c) != std::string::npos)
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

} // namespace

std::string githubText(const CheckReport &report) {
  std::string text;
  CheckoutPaths paths(kGithubTop);
  for (const GraphFinding &f : report.sorted()) {
    const ShownPlace place = shownPlace(f);
    text += std::string("::") + levelName(f.severity) + " file=" + escaped(paths.of(place.file).path, true) +
            ",line=" + std::to_string(place.range.known() ? place.range.line : 1);
    if (place.range.known() && place.range.endLine) text += ",endLine=" + std::to_string(place.range.endLine);
    text += ",title=" + escaped("OPC " + f.rule, true) +
            "::" + escaped(messageOf(f) + (f.help.empty() ? "" : "\nhelp: " + f.help), false) + "\n";
  }
  return text;
}

std::string markdownText(const CheckReport &report) {
  constexpr size_t kMostRows = 1000, kMostBytes = 400; // the summary of a step has at most 1 MiB
  std::string text = "### opc check\n\n" + cell(checkSummary(report)) + "\n";
  const std::vector<GraphFinding> findings = report.sorted();
  if (findings.empty()) return text;
  text += "\n| | rule | where | what |\n|---|---|---|---|\n";
  size_t rows = 0;
  for (const GraphFinding &f : findings) {
    if (++rows > kMostRows) {
      text += "\n" + countText(findings.size() - kMostRows) + " more\n";
      break;
    }
    std::string where = f.range.file.empty() ? f.graph : f.range.file;
    if (f.range.known()) where += ":" + std::to_string(f.range.line);
    std::string what = messageOf(f);
    if (what.size() > kMostBytes) {
      size_t end = kMostBytes - 3;
      while ((what[end] & 0xc0) == 0x80) --end; // between two characters
      what = what.substr(0, end) + "...";
    }
    text += std::string("| ") + levelName(f.severity) + " | " + cell(f.rule) + " | " + cell(where) + " | " +
            cell(what) + " |\n";
  }
  return text;
}

} // namespace opc::cli
