// The subcommands by name.
// SPDX-License-Identifier: Apache-2.0
#include "CommandList.h"

#include "Commands.h"
#include "OptionsOf.h"

namespace opc::cli {

const std::vector<CommandEntry> &commandList() {
  static const std::vector<CommandEntry> commands = {
      {"compile", "lower a graph to a runnable plan, or stop at any phase", makeCompileCommand},
      {"run", "execute a graph or plan; compare with expected values", makeRunCommand},
      {"grad", "add gradients to a graph; check and explain them", makeGradCommand},
      {"quantize", "weights and data of convolutions and products in 8 bits, calibrated and compared",
       makeQuantizeCommand},
      {"check", "verify graphs against the lock files beside them", makeCheckCommand},
      {"diff", "semantic difference of two graphs, plans or lock files", makeDiffCommand},
      {"show", "inspect a graph or plan: ops, tensors, memory, cost, tasks; drawings", makeShowCommand},
      {"report", "everything about a graph on one page: drawing, costs, memory, states", makeReportCommand},
      {"ops", "list or describe registered operators and kernels", makeOpsCommand},
      {"plugin", "check a plugin library", makePluginCommand},
      {"verify", "prove or refute the SBP signatures of operators", makeVerifyCommand},
      {"bench", "measure a graph, also beside another one", makeBenchCommand},
      {"debug", "find the op at which two runs part; make a failing graph smaller; repeat a crash", makeDebugCommand},
      {"sdk", "flags for compiling and linking a plugin", makeSdkCommand},
      {"python", "where the Python package is", makePythonCommand},
      {"explain", "long help for an error code or a rule of opc check", makeExplainCommand},
      {"doctor", "devices, versions, libraries and limits of this machine", makeDoctorCommand},
      {"config", "settings, and where each comes from", makeConfigCommand},
      {"cache", "the machine code that is kept on disk", makeCacheCommand},
      {"completion", "a script that completes opc's command lines in a shell", makeCompletionCommand},
      {"help", "help for a command, or all commands", makeHelpCommand},
      {"version", "the version", makeVersionCommand},
      {"__man", "write the manual pages", makeManCommand, true},
      {"__commands", "every command, option and setting as JSON", makeDescribeCommand, true},
  };
  return commands;
}

const CommandEntry *findCommand(const std::string &name) {
  for (const CommandEntry &c : commandList())
    if (name == c.name) return &c;
  return nullptr;
}

std::vector<Option> optionsOf(const std::vector<std::string> &words) {
  SharedFlags flags;
  const std::vector<Option> shared = flags.options();
  const size_t at = firstPositional(shared, words);
  const CommandEntry *entry = at < words.size() ? findCommand(words[at]) : nullptr;
  std::vector<Option> options;
  if (entry) options = entry->make()->spec().options; // of two with one name the command's own counts
  options.insert(options.end(), shared.begin(), shared.end());
  return options;
}

} // namespace opc::cli
