// Findings as a code quality report of GitLab.
// SPDX-License-Identifier: Apache-2.0
#include "CheckFormats.h"

namespace opc::cli {

/// https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
std::string gitlabText(const CheckReport &report) {
  const std::vector<GraphFinding> findings = report.sorted();
  CheckoutPaths paths("CI_PROJECT_DIR");
  const std::vector<std::string> prints = fingerprintsOf(findings, &paths);
  Json list = Json::array();
  for (size_t i = 0; i < findings.size(); ++i) {
    const GraphFinding &f = findings[i];
    const std::string about = subjectText(f);
    const ShownPlace place = shownPlace(f);
    const char *severity = f.severity == Severity::kError     ? "major"
                           : f.severity == Severity::kWarning ? "minor"
                                                              : "info";
    list.push_back(
        {{"description", about.empty() ? f.message : about + ": " + f.message},
         {"check_name", f.rule},
         {"fingerprint", prints[i]},
         {"severity", severity},
         {"location",
          {{"path", paths.of(place.file).path}, {"lines", {{"begin", place.range.known() ? place.range.line : 1}}}}}});
  }
  return jsonText(list);
}

} // namespace opc::cli
