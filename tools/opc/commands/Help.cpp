// opc help, opc version: what -h, --help and --version say, for those who try the words first.
// SPDX-License-Identifier: Apache-2.0
#include "CommandList.h"
#include "Commands.h"

#include "JsonOutput.h"
#include "NearestNames.h"
#include "TextTable.h"
#include "opc/Version.h"

namespace opc::cli {

std::string rootHelp(bool full, int width) {
  std::string text = "opc: compile and run static operator graphs\n\n"
                     "  opc run model.pbtxt --fill rand\n"
                     "  opc compile model.pbtxt -o model.plan\n\n"
                     "usage: opc COMMAND [arguments]\n\ncommands:\n";
  for (const CommandEntry &c : commandList()) {
    if (c.hidden) continue;
    const std::string head = "  " + std::string(c.name);
    if (width < 60) {
      text += head + "\n" + wrapText(c.summary, 6, width);
    } else {
      text += padded(head, 14) + wrapText(c.summary, 14, width).substr(14);
    }
  }
  if (full) {
    CommandSpec spec; // for the layout of the options alone
    spec.name = "COMMAND";
    const std::string all = helpText(spec, SharedFlags().options(), true, width);
    return text + "\n" + all.substr(all.find("common options:"));
  }
  return text + "\n" +
         wrapText("opc COMMAND -h: help for a command; opc --help: the options that all share; "
                  "opc --version: the version",
                  0, width);
}

std::string commandHelp(const CommandEntry &entry, int width, bool withCommon) {
  const std::unique_ptr<Command> command = entry.make();
  CommandSpec described = command->spec();
  described.name = entry.name;
  return helpText(described, withCommon ? SharedFlags().options() : std::vector<Option>(), true, width);
}

std::string helpOfAll(int width) {
  std::string text = rootHelp(true, width);
  for (const CommandEntry &c : commandList())
    if (!c.hidden) text += "\n" + std::string(static_cast<size_t>(width), '-') + "\n" + commandHelp(c, width, false);
  return text;
}

std::string versionText(bool json) {
  if (!json) return "opc " OPC_VERSION_STRING "\n";
  return jsonText({{"schema", 1},
                   {"version", OPC_VERSION_STRING},
                   {"sdk_api", OPC_SDK_API_VERSION},
                   {"devices", Json::array({"cpu"})}});
}

namespace {

struct HelpCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("help for a command, or all commands", "[COMMAND]", 0, 1);
    s.settings = SettingsUse::kNone;
    s.examples = {"opc help", "opc help run"};
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    Terminal &terminal = invocation.terminal();
    if (positional.empty()) return terminal.out(rootHelp(true, terminal.width())), kExitOk;
    const CommandEntry *entry = findCommand(positional[0]);
    if (!entry) {
      std::vector<std::string> names;
      for (const CommandEntry &c : commandList())
        if (!c.hidden) names.push_back(c.name);
      return usageError("unknown command '" + positional[0] + "'",
                        didYouMean(positional[0], names, "opc help lists the commands"));
    }
    terminal.out(commandHelp(*entry, terminal.width(), true));
    return kExitOk;
  }
};

struct VersionCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("the version");
    s.settings = SettingsUse::kNone;
    s.examples = {"opc version", "opc version --json"};
    return s;
  }
  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &) override {
    invocation.terminal().out(versionText(invocation.flags().json));
    return kExitOk;
  }
};

} // namespace

std::unique_ptr<Command> makeHelpCommand() { return std::make_unique<HelpCommand>(); }
std::unique_ptr<Command> makeVersionCommand() { return std::make_unique<VersionCommand>(); }

} // namespace opc::cli
