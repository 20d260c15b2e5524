// opc explain: the long text of an error code or rule, from docs/errors.md and docs/rules.md.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "ErrorCatalog.h"
#include "JsonOutput.h"
#include "NearestNames.h"

namespace opc::cli {

namespace {

std::string upper(std::string text) {
  for (char &c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

struct ExplainCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("long help for an error code or a rule of opc check: what it means, what to do",
                           "CODE|RULE|exit-codes", 0, 1);
    s.settings = SettingsUse::kNone;
    s.examples = {"opc explain OPC0203", "opc explain OP_RENAMED", "opc explain exit-codes"};
    s.options = {{"--list", 0, "", "all codes and rules, one a line", &list_, true}};
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    const std::vector<ErrorTopic> topics = allTopics();
    Terminal &terminal = invocation.terminal();
    if (list_ || positional.empty()) {
      if (!list_ && positional.empty()) return usageError("opc explain needs a code", "opc explain --list lists them");
      Json all = Json::array();
      for (const ErrorTopic &t : topics) {
        if (invocation.flags().json)
          all.push_back({{"code", t.name}, {"title", t.title}});
        else
          terminal.out(t.name + "  " + t.title + "\n");
      }
      if (invocation.flags().json) terminal.out(jsonText({{"schema", 1}, {"codes", std::move(all)}}));
      return kExitOk;
    }
    // "opc0203" and "203" mean OPC0203.
    std::string wanted = upper(positional[0]);
    if (!wanted.empty() && wanted.size() <= 4 && wanted.find_first_not_of("0123456789") == std::string::npos)
      wanted = "OPC" + std::string(4 - wanted.size(), '0') + wanted;
    std::vector<std::string> names;
    for (const ErrorTopic &t : topics) {
      names.push_back(t.name);
      if (upper(t.name) != wanted) continue;
      if (invocation.flags().json) {
        terminal.out(jsonText({{"schema", 1}, {"code", t.name}, {"title", t.title}, {"text", t.body}}));
        return kExitOk;
      }
      terminal.out(paint(t.name + ": " + t.title, Style::kBold, terminal.colorOut()) + "\n\n" + t.body);
      return kExitOk;
    }
    const std::vector<std::string> near = nearestNames(wanted, names, 3);
    std::string help = "opc explain --list lists all codes";
    if (!near.empty()) help = "the nearest is " + near[0] + "; " + help;
    return usageError("no code '" + positional[0] + "'", help);
  }

private:
  bool list_ = false;
};

} // namespace

std::unique_ptr<Command> makeExplainCommand() { return std::make_unique<ExplainCommand>(); }

} // namespace opc::cli
