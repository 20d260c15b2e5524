// The subcommands of opc; each is one file of commands/.
#pragma once

#include "Invocation.h"

#include <memory>

namespace opc::cli {

std::unique_ptr<Command> makeCompileCommand();
std::unique_ptr<Command> makeRunCommand();
std::unique_ptr<Command> makeGradCommand();
std::unique_ptr<Command> makeShowCommand();
std::unique_ptr<Command> makeVerifyCommand();
std::unique_ptr<Command> makeOpsCommand();
std::unique_ptr<Command> makePluginCommand();
std::unique_ptr<Command> makeSdkCommand();
std::unique_ptr<Command> makeExplainCommand();

} // namespace opc::cli
