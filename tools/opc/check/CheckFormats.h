// What a check has found, in the forms that other programs read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CheckReport.h"
#include "CheckoutPaths.h"

#include <string>
#include <vector>

namespace opc::cli {

/// The variable that names the folder of the repository in a workflow of GitHub.
inline constexpr char kGithubTop[] = "GITHUB_WORKSPACE";

/// "text", "json", "jsonl", "markdown", "github", "gitlab", "junit", "sarif".
const std::vector<std::string> &checkFormats();

/// The report in one of checkFormats(); text is without colour. Names from graphs are escaped as the form needs it.
std::string formattedCheck(const std::string &format, const CheckReport &report);

// Each in a file of its own.
// Those that programs read which know the repository call a file by its way from the top of that.
std::string githubText(const CheckReport &report);   // workflow commands: ::error file=...::message
std::string markdownText(const CheckReport &report); // a table
std::string gitlabText(const CheckReport &report);   // a code quality report
std::string junitText(const CheckReport &report);    // a suite for each graph, a case for each rule that was looked at
std::string sarifText(const CheckReport &report);    // SARIF 2.1.0

/// The same for a finding in every run, and another for each of a report: of rule, graph as `paths` call it, op and
/// tensor, and of how many of these came before.
std::vector<std::string> fingerprintsOf(const std::vector<GraphFinding> &findings, CheckoutPaths *paths);

} // namespace opc::cli
