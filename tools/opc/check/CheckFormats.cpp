// What a check has found, in the forms that other programs read.
// SPDX-License-Identifier: Apache-2.0
#include "CheckFormats.h"

#include "Sha256.h"

#include <map>

namespace opc::cli {

namespace {

std::string linesText(const CheckReport &report) {
  std::string text;
  for (const GraphFinding &f : report.sorted()) text += jsonLine(findingJson(f));
  return text;
}

std::string plainText(const CheckReport &report) {
  constexpr int kColumns = 120;
  return checkText(report, false, kColumns) + checkSummary(report) + "\n";
}

std::string documentText(const CheckReport &report) { return jsonText(checkJson(report)); }

struct Format {
  const char *name;
  std::string (*write)(const CheckReport &report);
};
constexpr Format kFormats[] = {{"text", plainText},        {"json", documentText}, {"jsonl", linesText},
                               {"markdown", markdownText}, {"github", githubText}, {"gitlab", gitlabText},
                               {"junit", junitText},       {"sarif", sarifText}};

} // namespace

const std::vector<std::string> &checkFormats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Format &f : kFormats) all.push_back(f.name);
    return all;
  }();
  return names;
}

std::string formattedCheck(const std::string &format, const CheckReport &report) {
  for (const Format &f : kFormats)
    if (format == f.name) return f.write(report);
  return "";
}

std::vector<std::string> fingerprintsOf(const std::vector<GraphFinding> &findings, CheckoutPaths *paths) {
  std::map<std::string, size_t> before;
  std::vector<std::string> prints;
  for (const GraphFinding &f : findings) {
    const std::string about = f.rule + '\n' + paths->of(f.graph).path + '\n' + f.op + '\n' + f.tensor;
    prints.push_back(sha256(about + '\n' + std::to_string(before[about]++)).substr(0, 32));
  }
  return prints;
}

} // namespace opc::cli
