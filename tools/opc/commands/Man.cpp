// opc __man: the manual pages, written when opc is built.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "CommandList.h"
#include "ManPage.h"
#include "Session.h"

#include <filesystem>

namespace opc::cli {

namespace {

struct ManCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("write the manual pages opc.1, opc-run.1, ... into a directory", "DIR", 1, 1);
    s.settings = SettingsUse::kNone;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    const std::string &directory = positional[0];
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    SharedFlags flags;
    const std::vector<Option> shared = flags.options();
    std::vector<std::pair<std::string, std::string>> commands;
    for (const CommandEntry &c : commandList()) {
      if (c.hidden) continue;
      commands.push_back({c.name, c.summary});
      CommandSpec spec = c.make()->spec();
      spec.name = c.name;
      OPC_RETURN_IF_ERROR(writeFileAtomically(directory + "/opc-" + c.name + ".1", manPage(spec, shared)));
    }
    OPC_RETURN_IF_ERROR(writeFileAtomically(directory + "/opc.1", rootManPage(commands, shared)));
    return kExitOk;
  }
};

} // namespace

std::unique_ptr<Command> makeManCommand() { return std::make_unique<ManCommand>(); }

} // namespace opc::cli
