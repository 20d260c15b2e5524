// Invocation: the shared flags and the reports of failure.
// SPDX-License-Identifier: Apache-2.0
#include "Invocation.h"

#include "Devices.h"
#include "DiagnosticJson.h"
#include "DiagnosticText.h"
#include "Log.h"
#include "OptionRanges.h"
#include "PluginOpeners.h"
#include "PluginOverrides.h"
#include "PythonPlugins.h"
#include "TextParts.h"
#include "TextTable.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace opc::cli {

std::vector<Option> SharedFlags::options() {
  return {
      {"", 'C', "DIR", "work in DIR: all other paths are relative to it", &directory},
      {"--config", 0, "FILE", "settings from this file alone; none: from no file", &config},
      {"--plugin", 0, "LIB", "load the operators of a shared library (repeatable)", &plugins},
      {"--plugin-overrides", 0, "LIB", "load a library whose ops win over built-in ones of their names (repeatable)",
       intoEach(&plugins, [](const std::string &path) { return std::optional(overridingPlugin(path)); })},
      {"--op-path", 0, "DIR", "a folder whose Python operators may run (repeatable)", &opPaths},
      {"--device", 0, "cpu|gpu|sim",
       "where to run: gpu:1 the second GPU, gpu:0-3 four, sim a simulated one (default: cpu)", &device},
      within({"", 'j', "N", "threads to use (default: one for each core)", &threads}, ranges::kThreads),
      {"--deterministic", 0, "", "sum over ranks in the order of the ranks, whatever the size; the rest is so always",
       &deterministic},
      {"--no-codegen", 0, "", "no machine code for regions: the loops of their ops compute them", &noCodegen},
      {"--no-cache", 0, "", "neither read nor keep machine code of regions on disk", &noCache},
      {"--json", 0, "", "one JSON document on standard output instead of text", &json},
      {"--quiet", 'q', "",
       "no notes, no warnings of the compiler, no summaries; errors, data that was asked for and warnings of a training run stay",
       &quiet},
      {"--verbose", 'v', "",
       "on standard error, which libraries are loaded and what ranks exchange; twice: also ops, files of --dump, exit code",
       Repetitions{&verbose}},
      Option{"--color", 0, "", "NO_COLOR and FORCE_COLOR work too", &color}.oneOf({"auto", "always", "never"}),
      Option{"--progress", 0, "", "what is under way, on standard error (auto: on a terminal)", &progress}.oneOf(
          {"auto", "plain", "none", "json"}),
      {"--log", 0, "FILE", "append all that -v -v says to a file, with notes, errors and times", &log},
      {"--timing", 0, "", "how long the parts took: reading, compiling, loading, running", &timing},
      {"--exit-zero", 0, "", "exit 0 where the answer is no (exit code 1); opc check: whatever is found", &exitZero},
      {"--no-input", 0, "", "never read from a terminal: a - for a file is an error there", &noInput},
      {"--mlir", 0, "FLAG", "a flag of LLVM or MLIR, for work on the compiler: --mlir=-mlir-timing (repeatable)",
       &compilerFlags},
      {"", 'h', "", "short help", static_cast<bool *>(nullptr)},
      {"--help", 0, "[=all]", "all help; =all: of every command", static_cast<bool *>(nullptr)},
  };
}

Invocation::Invocation(SharedFlags flags, std::vector<std::string> commandLine, Terminal &terminal)
    : flags_(std::move(flags)), commandLine_(std::move(commandLine)), terminal_(&terminal),
      progress_(std::make_unique<Progress>(ProgressMode::kNone, terminal)) {}

/// What --no-input has something against: a person would have to type it.
static Status checkInput(const std::vector<std::string> &positional) {
  if (isatty(STDIN_FILENO) == 0) return Status::ok();
  for (const std::string &argument : positional)
    if (argument == "-")
      return usageError("standard input is a terminal, and --no-input reads none", "give a file, or a pipe");
  return Status::ok();
}

Status Invocation::requireCpu(const std::string &what) const {
  if (flags_.device == "cpu") return Status::ok();
  return Status(StatusCode::kUnsupported, "OPC0006",
                what + " works on the cpu, and the device is '" + flags_.device + "'")
      .withHelp("give --device cpu; opc run, compile, show, debug first-diff, verify and plugin check take others");
}

/// Commands that run kernels elsewhere than on the CPU, and those to which it is all one.
static Status checkDevice(const Invocation &invocation, const std::string &command) {
  const std::string &device = invocation.flags().device;
  if (!isDeviceName(device)) {
    std::string origin; // where no option says it
    for (const ConfigValue &v : invocation.config().values())
      if (v.key->option == std::string("--device") && !invocation.flags().isDeviceGiven) origin = " in " + v.origin;
    return usageError("unknown device '" + device + "'" + origin,
                      "the devices are cpu, gpu, gpu:N, sim and sim:N; gpu:0-3 are four, of as many ranks");
  }
  for (const char *onCpu : {"check", "report"})
    if (command == onCpu) return invocation.requireCpu("opc " + command);
  return Status::ok();
}

Status Invocation::start(const std::string &command, const std::vector<std::string> &positional) {
  if (flags_.noInput) OPC_RETURN_IF_ERROR(checkInput(positional));
  startLog(flags_.quiet ? -1 : flags_.verbose);
  const ProgressMode mode = parseProgress(flags_.progress, isatty(STDERR_FILENO) != 0);
  // Lines of the log and a line that is rewritten would spoil each other.
  const bool quiet = flags_.quiet || (mode == ProgressMode::kLine && flags_.verbose);
  progress_ = std::make_unique<Progress>(quiet ? ProgressMode::kNone : mode, *terminal_);
  OPC_RETURN_IF_ERROR(checkDevice(*this, command));
  if (!flags_.directory.empty() && chdir(flags_.directory.c_str()) != 0)
    return Status(StatusCode::kUsage, "OPC0002", "cannot work in '" + flags_.directory + "': " + std::strerror(errno));
  OPC_RETURN_IF_ERROR(checkOpPaths(flags_.opPaths));
  if (flags_.log.empty()) return Status::ok();
  std::string line = "opc";
  for (const std::string &word : commandLine_) line += " " + shellQuoted(word);
  return openLog(flags_.log, line);
}

int Invocation::finish(int code) {
  watch_.lap("rest");
  if (flags_.timing) terminal_->err(watch_.text());
  if (flags_.exitZero && code == kExitNo) code = kExitOk;
  logDebug("exit code " + std::to_string(code));
  if (const Status log = logWritten(); !log) {
    const int failed = fail(log);
    if (code == kExitOk || code == kExitNo) code = failed;
  }
  return code;
}

namespace {

/// Opening a library takes what its registrars have left, and they run once: for the next registry, that of a graph
/// with a manifest, it is kept.
Status keepRegistrations(const std::string &path) {
  if (pluginOpener(path)) return Status::ok(); // kept already, or no library
  OPC_ASSIGN_OR_RETURN(const LoadedPlugin loaded, openPlugin(path));
  setPluginOpener({"library " + path, [path](const std::string &other) { return other == path; },
                   [loaded](const std::string &) -> Result<LoadedPlugin> { return loaded; }});
  return Status::ok();
}

} // namespace

Result<Registry> loadRegistry(const std::vector<std::string> &plugins) {
  Registry registry;
  OPC_RETURN_IF_ERROR(registry.addLinked());
  for (const std::string &path : plugins) {
    OPC_RETURN_IF_ERROR(keepRegistrations(pluginPath(path)));
    OPC_ASSIGN_OR_RETURN(PluginInfo info, registry.loadPlugin(path));
    if (const auto names = overriddenBy(registry, info.path); !names.empty())
      logNote(info.path + " overrides the built-in " + (names.size() == 1 ? "op " : "ops ") + joined(names, ", "));
    logInfo((info.source.empty() ? "plugin " + path : "operators in Python of " + info.source) + ": " +
            std::to_string(info.ops.size()) + " ops, " + std::to_string(info.kernels.size()) + " kernels");
  }
  registry.freeze();
  logDebug("registry: " + std::to_string(registry.ops().size()) + " ops");
  return registry;
}

Result<Registry> Invocation::loadRegistry(const std::string &graph) {
  notePlugins();
  if (!flags_.plugins.empty()) prepareDeviceForPlugins(flags_.device);
  Result<Registry> registry = opc::cli::loadRegistry(withPythonOps(flags_.plugins, flags_.opPaths, graph));
  watch_.lap("operators");
  return registry;
}

void Invocation::notePlugins() {
  for (const std::string &text : config_.pluginNotes()) note("note: " + text);
}

void Invocation::note(const std::string &text) {
  logText(text);
  if (!flags_.quiet) terminal_->err(text + "\n");
}

void Invocation::warn(const std::string &text, const std::string &help) {
  const std::string lines = "warning: " + text + (help.empty() ? "" : "\nhelp: " + help);
  logText(lines);
  terminal_->err(lines + "\n");
}

/// Columns of an excerpt: a terminal's, or as many as a pipe or a file gets before a line is cut.
static int excerptWidth() {
  constexpr int kMostColumns = 500;
  const size_t width = errTableWidth();
  return width ? static_cast<int>(width) : kMostColumns;
}

int Invocation::fail(const Failure &failure) {
  if (const Status &status = failure.status; !status) {
    const int code = exitCodeOf(status.code());
    terminal_->err(statusText(status, terminal_->colorErr()));
    logText(statusText(status, false));
    if (flags_.json) terminal_->out(failureJson(status, code));
    return code;
  }
  const StatusCode worst = failure.errorClass;
  const int code = exitCodeOf(worst == StatusCode::kOk ? StatusCode::kInternal : worst);
  TextStyle style{terminal_->colorErr(), excerptWidth()};
  terminal_->err(diagnosticsText(failure.findings, failure.errorCount, failure.source, style));
  if (logs()) logText(diagnosticsText(failure.findings, failure.errorCount, failure.source, {}));
  if (flags_.json) terminal_->out(failureJson(failure.findings, failure.errorCount, code));
  return code;
}

void Invocation::showFindings(const std::vector<Diagnostic> &diagnostics, const SourceText &source) {
  if (diagnostics.empty()) return;
  if (logs()) logText(diagnosticsText(diagnostics, 0, source, {}));
  if (flags_.quiet) return;
  TextStyle style{terminal_->colorErr(), excerptWidth()};
  terminal_->err(diagnosticsText(diagnostics, 0, source, style));
}

} // namespace opc::cli
