// Failures as JSON documents.
// SPDX-License-Identifier: Apache-2.0
#include "DiagnosticJson.h"

#include "DiagnosticText.h"
#include "JsonOutput.h"

namespace opc::cli {

namespace {
Json rangeJson(const SourceRange &r) {
  if (!r.known()) return nullptr;
  return {
      {"file", r.file}, {"line", r.line}, {"column", r.column}, {"end_line", r.endLine}, {"end_column", r.endColumn}};
}

Json documentOf(Json diagnostics, size_t errors, int exitCode) {
  return {{"schema", 1}, {"exit", exitCode}, {"errors", errors}, {"diagnostics", std::move(diagnostics)}};
}
} // namespace

std::string failureJson(const std::vector<Diagnostic> &diagnostics, size_t errorCount, int exitCode) {
  Json list = Json::array();
  for (const Diagnostic &d : diagnostics) {
    Json operands = Json::array();
    for (const Diagnostic::Operand &o : d.operands)
      operands.push_back({{"text", o.text}, {"made_by", o.madeBy}, {"range", rangeJson(o.range)}});
    list.push_back({{"severity", severityName(d.severity)},
                    {"code", d.code},
                    {"message", d.message},
                    {"subject", d.subject},
                    {"range", rangeJson(d.range)},
                    {"operands", std::move(operands)},
                    {"help", d.help},
                    {"notes", d.notes}});
  }
  return jsonText(documentOf(std::move(list), errorCount, exitCode));
}

std::string failureJson(const Status &status, int exitCode) {
  Json diagnostic = {{"severity", "error"},         {"code", status.id()},   {"message", status.message()},
                     {"context", status.context()}, {"help", status.help()}, {"range", nullptr}};
  return jsonText(documentOf(Json::array({std::move(diagnostic)}), 1, exitCode));
}

} // namespace opc::cli
