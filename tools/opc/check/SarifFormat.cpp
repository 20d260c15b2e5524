// Findings as SARIF 2.1.0.
// SPDX-License-Identifier: Apache-2.0
#include "CheckFormats.h"

#include "ErrorCatalog.h"
#include "Rules.h"

#include "opc/Version.h"

#include <algorithm>
#include <map>

namespace opc::cli {

namespace {

const char *levelName(Severity severity) {
  return severity == Severity::kError ? "error" : severity == Severity::kWarning ? "warning" : "note";
}

/// A path as the reference of a URI (RFC 3986): what is neither unreserved nor a slash is %XX.
std::string uriOf(const std::string &path) {
  std::string out = !path.empty() && path[0] == '/' ? "file://" : "";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || c == '/';
    const auto byte = static_cast<unsigned char>(c);
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 15];
    }
  }
  return out;
}

const char *const kBase = "%SRCROOT%"; // as CodeQL and others call the top of a repository

/// Where that is on this machine is nobody's business: whoever reads the report has a checkout of their own.
Json artifactOf(const CheckoutPath &file) {
  Json artifact = {{"uri", uriOf(file.path)}};
  if (file.isBelowTop) artifact["uriBaseId"] = kBase;
  return artifact;
}

/// A column of a line, counted in bytes from 1, as one in code units of UTF-16; 0 where the line is not known.
uint32_t codeUnitColumn(const std::string &text, uint32_t line, uint32_t column) {
  size_t at = 0;
  for (uint32_t n = 1; n < line; ++n) {
    at = text.find('\n', at);
    if (at == std::string::npos) return 0;
    ++at;
  }
  if (at >= text.size() || !column) return 0;
  uint32_t units = 1;
  for (size_t i = at; i < std::min(text.size(), at + column - 1); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    units += (byte & 0xC0) != 0x80; // bytes after the first of a character
    units += byte >= 0xF0;          // beyond U+FFFF: a pair of surrogates
  }
  return units;
}

Json regionOf(const SourceRange &range, const std::string &text) {
  if (!range.known()) return {{"startLine", 1}};
  Json region = {{"startLine", range.line}};
  if (const uint32_t column = codeUnitColumn(text, range.line, range.column)) region["startColumn"] = column;
  if (range.endLine >= range.line) {
    region["endLine"] = range.endLine;
    if (const uint32_t column = codeUnitColumn(text, range.endLine, range.endColumn)) region["endColumn"] = column;
  }
  return region;
}

Json rulesJson(std::map<std::string, size_t> *index) {
  std::map<std::string, std::string> texts;
  for (const ErrorTopic &t : errorTopics(kRulesPage)) texts[t.name] = t.body;
  Json list = Json::array();
  for (const Rule &r : allRules()) {
    (*index)[r.name] = list.size();
    list.push_back({{"id", r.name},
                    {"shortDescription", {{"text", r.doc}}},
                    {"help", {{"text", texts[r.name]}}},
                    {"defaultConfiguration", {{"level", levelName(r.severity)}}},
                    {"properties", {{"category", ruleCategoryName(r.category)}}}});
  }
  return list;
}

} // namespace

std::string sarifText(const CheckReport &report) {
  std::map<std::string, size_t> index;
  Json rules = rulesJson(&index), results = Json::array();
  const std::vector<GraphFinding> findings = report.sorted();
  CheckoutPaths paths(kGithubTop);
  const std::vector<std::string> prints = fingerprintsOf(findings, &paths);
  const ReportTexts texts(report);
  bool hasBase = false;
  for (size_t i = 0; i < findings.size(); ++i) {
    const GraphFinding &f = findings[i];
    const std::string about = subjectText(f);
    const ShownPlace shown = shownPlace(f);
    const CheckoutPath &file = paths.of(shown.file);
    hasBase |= file.isBelowTop;
    const Json place = {
        {"physicalLocation",
         {{"artifactLocation", artifactOf(file)}, {"region", regionOf(shown.range, texts.of(f).text)}}}};
    Json result = {{"ruleId", f.rule}};
    if (const auto found = index.find(f.rule); found != index.end()) result["ruleIndex"] = found->second;
    result["level"] = levelName(f.severity);
    result["message"] = {
        {"text", (about.empty() ? "" : about + ": ") + f.message + (f.help.empty() ? "" : "\nhelp: " + f.help)}};
    Json places = Json::array();
    places.push_back(place);
    result["locations"] = std::move(places);
    result["partialFingerprints"] = {{"opcFinding/v1", prints[i]}};
    results.push_back(std::move(result));
  }
  const Json driver = {{"name", "opc"}, {"version", OPC_VERSION_STRING}, {"rules", std::move(rules)}};
  Json run = {{"tool", {{"driver", driver}}}, {"columnKind", "utf16CodeUnits"}, {"results", std::move(results)}};
  if (hasBase) run["originalUriBaseIds"][kBase] = {{"description", {{"text", "The top of the repository."}}}};
  Json runs = Json::array();
  runs.push_back(std::move(run));
  return jsonText(
      {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"}, {"version", "2.1.0"}, {"runs", std::move(runs)}});
}

} // namespace opc::cli
