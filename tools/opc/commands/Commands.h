// The subcommands of opc; each is one file of commands/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"

#include <memory>

namespace opc::cli {

/// What every command says of itself; `arguments` names the `least` to `most` that it takes.
inline CommandSpec specOf(std::string summary, std::string arguments = "", size_t least = 0, size_t most = 0) {
  CommandSpec s;
  s.arguments = std::move(arguments);
  s.summary = std::move(summary);
  s.minArguments = least;
  s.maxArguments = most;
  return s;
}

std::unique_ptr<Command> makeCompileCommand();
std::unique_ptr<Command> makeRunCommand();
std::unique_ptr<Command> makeGradCommand();
std::unique_ptr<Command> makeQuantizeCommand();
std::unique_ptr<Command> makeCheckCommand();
std::unique_ptr<Command> makeDiffCommand();
std::unique_ptr<Command> makeShowCommand();
std::unique_ptr<Command> makeReportCommand();
std::unique_ptr<Command> makeVerifyCommand();
std::unique_ptr<Command> makeDebugCommand();
std::unique_ptr<Command> makeBenchCommand();
std::unique_ptr<Command> makeOpsCommand();
std::unique_ptr<Command> makePluginCommand();
std::unique_ptr<Command> makeSdkCommand();
std::unique_ptr<Command> makePythonCommand();
std::unique_ptr<Command> makeExplainCommand();
std::unique_ptr<Command> makeDoctorCommand();
std::unique_ptr<Command> makeCacheCommand();
std::unique_ptr<Command> makeConfigCommand();
std::unique_ptr<Command> makeCompletionCommand();
std::unique_ptr<Command> makeHelpCommand();
std::unique_ptr<Command> makeVersionCommand();
std::unique_ptr<Command> makeManCommand();
std::unique_ptr<Command> makeDescribeCommand();

} // namespace opc::cli
