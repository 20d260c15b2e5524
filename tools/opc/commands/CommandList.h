// The subcommands by name: what main dispatches to, completion offers and the manual describes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"

#include <memory>
#include <string>
#include <vector>

namespace opc::cli {

struct CommandEntry {
  const char *name;
  const char *summary;
  std::unique_ptr<Command> (*make)();
  bool hidden = false; // not in the help
};
/// In the order of the help.
const std::vector<CommandEntry> &commandList();
/// The entry of that name, or nullptr.
const CommandEntry *findCommand(const std::string &name);

/// What `opc help` and `opc -h` show; `full` (--help) has the options that all commands share, too.
std::string rootHelp(bool full, int width);
/// The help of one command, and `--help=all`: of opc and every command.
std::string commandHelp(const CommandEntry &entry, int width, bool withCommon);
std::string helpOfAll(int width);
std::string versionText(bool json);

/// `opc __complete`: what may stand for the last of `words` (the words after `opc`), for the shells' scripts. Lines of
/// "candidate TAB description"; ":file" when a path may stand there. Never fails: without an idea it prints nothing.
std::string completionsText(const std::vector<std::string> &words);
/// The same for a command line as typed, up to the cursor.
std::string completionsOfLine(const std::string &line);

} // namespace opc::cli
