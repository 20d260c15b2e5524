// One self-contained page: no network, no other file; light and dark; every part is reached by keyboard.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::cli {

class HtmlPage {
public:
  /// Both are texts.
  HtmlPage(const std::string &title, const std::string &summary);
  /// A part with a tab of its own; `body` is HTML. Without scripts all parts are shown below each other.
  void add(const std::string &id, const std::string &label, const std::string &body);
  std::string text() const;

private:
  struct Part {
    std::string id, label, body;
  };
  std::string title_, summary_;
  std::vector<Part> parts_;
};

} // namespace opc::cli
