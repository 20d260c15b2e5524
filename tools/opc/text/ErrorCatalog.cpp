// The sections of docs/errors.md and docs/rules.md.
// SPDX-License-Identifier: Apache-2.0
#include "ErrorCatalog.h"

#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

std::vector<ErrorTopic> errorTopics(std::string_view page) {
  std::vector<ErrorTopic> topics;
  for (const std::string &line : splitAt(page, '\n')) {
    if (line.substr(0, 3) == "## ") {
      // "## OPC0203 — shapes do not fit": the name ends at the first blank, the title follows the dash.
      const std::string heading = line.substr(3);
      const size_t blank = heading.find(' '), title = heading.find(' ', std::min(blank, heading.size() - 1) + 1);
      ErrorTopic topic;
      topic.name = heading.substr(0, blank);
      if (title != std::string::npos) topic.title = heading.substr(title + 1);
      topics.push_back(std::move(topic));
    } else if (!topics.empty()) {
      std::string &body = topics.back().body;
      if (body.empty() && line.empty()) continue;
      body.append(line);
      body += '\n';
    }
  }
  for (ErrorTopic &t : topics)
    while (t.body.size() > 1 && t.body[t.body.size() - 1] == '\n' && t.body[t.body.size() - 2] == '\n')
      t.body.pop_back();
  return topics;
}

std::vector<ErrorTopic> allTopics() {
  std::vector<ErrorTopic> topics = errorTopics();
  for (ErrorTopic &t : errorTopics(kRulesPage)) topics.push_back(std::move(t));
  return topics;
}

} // namespace opc::cli
