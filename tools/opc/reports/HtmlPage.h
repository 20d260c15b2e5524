// One self-contained page: no network, no other file; light and dark; every part is reached by keyboard.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"

#include <string>
#include <vector>

namespace opc::cli {

class HtmlPage {
public:
  /// Texts, and what the page's script draws (PageData.h).
  HtmlPage(const std::string &title, const std::string &summary, Json data);
  /// A part with a tab of its own; `body` is HTML. Parts without a body are drawn by the script that is called as they
  /// are. Without scripts all parts are shown below each other.
  void add(const std::string &id, const std::string &label, const std::string &body = "");
  std::string text() const;

private:
  struct Part {
    std::string id, label, body;
  };
  std::string title_, summary_;
  Json data_;
  std::vector<Part> parts_;
};

/// A table of texts.
std::string htmlTable(const std::vector<std::string> &heads, const std::vector<std::vector<std::string>> &rows);
/// Lines of text as they are.
std::string htmlLines(const std::string &text);

/// The page's style and script, from tools/opc/page.
extern const std::string_view kPageStyle, kPageScript;

} // namespace opc::cli
