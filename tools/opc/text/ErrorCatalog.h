// The long texts behind `opc explain`: docs/errors.md and docs/rules.md, built into the program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

/// The whole of docs/errors.md.
extern const std::string_view kErrorsPage;
/// The whole of docs/rules.md.
extern const std::string_view kRulesPage;

struct ErrorTopic {
  std::string name;  // "OPC0203" or "exit-codes"
  std::string title; // "shapes do not fit"
  std::string body;  // without the heading
};

/// The sections "## NAME: title" of a page, in its order.
std::vector<ErrorTopic> errorTopics(std::string_view page = kErrorsPage);
/// Those of both pages.
std::vector<ErrorTopic> allTopics();

} // namespace opc::cli
