// Invocation: one call of the program: the flags that all commands share, where to write, how to report.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "Config.h"
#include "ExitCodes.h"
#include "Failure.h"
#include "Progress.h"
#include "Registry.h"
#include "Stopwatch.h"
#include "Terminal.h"

#include <memory>
#include <string>
#include <vector>

namespace opc::cli {

/// The flags of every command, as given.
struct SharedFlags {
  std::string directory; // -C
  std::string config;    // --config
  std::vector<std::string> plugins;
  std::vector<std::string> opPaths; // --op-path: folders whose Python code may run
  std::string device = "cpu";
  bool isDeviceGiven = false; // on the command line, not by a setting
  int threads = 0;            // -j; 0: one for each core
  std::string color = "auto";
  std::string progress = "auto";
  bool quiet = false, json = false;
  int verbose = 0;
  std::string log;                        // --log
  std::vector<std::string> compilerFlags; // --mlir
  bool timing = false, deterministic = false, noInput = false, exitZero = false;
  bool noCodegen = false, noCache = false;

  /// The options that fill this.
  std::vector<Option> options();
};

/// The built-in ops and those of plugins. Frozen.
Result<Registry> loadRegistry(const std::vector<std::string> &plugins);

class Invocation {
public:
  Invocation(SharedFlags flags, std::vector<std::string> commandLine, Terminal &terminal);

  const SharedFlags &flags() const { return flags_; }
  /// The words after `opc`, as the user gave them.
  const std::vector<std::string> &commandLine() const { return commandLine_; }
  Terminal &terminal() { return *terminal_; }
  int threads() const { return flags_.threads; }
  const Config &config() const { return config_; }
  void setConfig(Config config) { config_ = std::move(config); }
  /// Why there are no settings, for a command that tells it.
  const Status &settingsProblem() const { return settingsProblem_; }
  void setSettingsProblem(Status problem) { settingsProblem_ = std::move(problem); }
  /// Which part of the work is under way, for people who wait.
  Progress &progress() { return *progress_; }
  /// How long the parts take, for --timing: a command says where one ends.
  Stopwatch &watch() { return watch_; }

  /// Checks the values of the shared flags for a command, moves to -C's directory and opens the log. `positional`: what
  /// --no-input looks at.
  Status start(const std::string &command, const std::vector<std::string> &positional);
  /// An error where the device is not the CPU. `what` runs there alone: "opc bench".
  Status requireCpu(const std::string &what) const;
  /// The exit code of a command that gave `code`: --exit-zero. Ends the log, and says --timing's words.
  int finish(int code);
  /// The built-in ops, those of --plugin and the settings, each of which is noted, and the ones that are written in
  /// Python: of the manifest beside `graph`, or where there is none of the folders of --op-path.
  Result<Registry> loadRegistry(const std::string &graph = "");
  void notePlugins();

  /// A line on standard error, unless -q.
  void note(const std::string &text);
  /// "warning: ..." of what a run would lose or does in vain, on standard error, with -q, too.
  void warn(const std::string &text, const std::string &help = "");
  /// Reports an error and gives the exit code. The findings of a compilation are text on standard error, and with
  /// --json a document on standard output as well.
  int fail(const Failure &failure);
  /// Warnings and notes of a compilation that succeeded; nothing with -q.
  void showFindings(const std::vector<Diagnostic> &diagnostics, const SourceText &source);

private:
  SharedFlags flags_;
  std::vector<std::string> commandLine_;
  Terminal *terminal_;
  Config config_;
  std::unique_ptr<Progress> progress_;
  Stopwatch watch_;
  Status settingsProblem_;
};

/// A subcommand. run() is called once, after the options' targets are filled; it gives the exit code, or why it ends.
class Command {
public:
  virtual ~Command() = default;
  /// Without its name, which the list of commands has.
  virtual CommandSpec spec() = 0;
  virtual Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) = 0;
};

} // namespace opc::cli
