// Command lines as data: what a command accepts, how it is parsed, and the help that follows from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"

#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// What a command does with settings of files and of the environment.
enum class SettingsUse {
  kNeeded, // it ends where they are broken
  kTold,   // it says itself what is wrong with them: Invocation::settingsProblem()
  kNone,   // what explains them works without them
};

/// What a command accepts and says about itself.
struct CommandSpec {
  std::string name;      // "run", "plugin check"; empty for a program without commands
  std::string arguments; // "GRAPH|PLAN|-"
  std::string summary;
  std::vector<std::string> examples; // the first two open the help
  std::vector<Option> options;
  std::string details; // the part that only --help shows
  size_t minArguments = 0, maxArguments = 0;
  std::string program = "opc";
  /// "opc run".
  std::string called() const { return name.empty() ? program : program + " " + name; }
  bool executesKernels = false; // on this machine's threads
  bool isRankJob = false;       // a launcher may start it as several processes, of which the first speaks
  SettingsUse settings = SettingsUse::kNeeded;
};

struct ParsedArguments {
  std::vector<std::string> positional;
  std::set<std::string> given; // options, as Option::shown() names them
  bool shortHelp = false, fullHelp = false;
};

/// Parses `args` (without program and command name) into the options' targets. No prefix abbreviations; an option that
/// may be given once and comes twice is an error. Errors: OPC0001 with the nearest option, or with what the option
/// takes.
Result<ParsedArguments> parseArguments(const CommandSpec &spec, const std::vector<Option> &commonOptions,
                                       const std::vector<std::string> &args);

/// The text of -h, or of --help with `full`.
std::string helpText(const CommandSpec &spec, const std::vector<Option> &commonOptions, bool full, int width);

/// Fills `text` into lines of `width` columns, each after `indent` blanks. Lines that start with a blank stay as they
/// are.
std::string wrapText(const std::string &text, int indent, int width);

/// The index in `args` of the first argument that is neither an option of `options` nor an option's value.
size_t firstPositional(const std::vector<Option> &options, const std::vector<std::string> &args);

/// `arg` as a POSIX shell would need it.
std::string shellQuoted(const std::string &arg);

} // namespace opc::cli
