// The command `opc`: finds the subcommand, parses its flags, runs it, turns failures into exit codes.
// SPDX-License-Identifier: Apache-2.0
#include "CodeSettings.h"
#include "CommandList.h"
#include "CommandWords.h"
#include "CompilerFlags.h"
#include "Config.h"
#include "CrashBundle.h"
#include "CrashRecord.h"
#include "FreedMemory.h"

#include "Launcher.h"
#include "NearestNames.h"
#include "Program.h"
#include "SmallLimits.h"
#include "ThreadWaiting.h"

#include <malloc.h>
#include <new>
#include <system_error>

using namespace opc;
using namespace opc::cli;

namespace {

ColorMode colorMode(const std::string &name) {
  return name == "always" ? ColorMode::kAlways : name == "never" ? ColorMode::kNever : ColorMode::kAuto;
}

/// What --color says, before anything is parsed: errors of parsing are coloured, too.
std::string colorArgument(const std::vector<std::string> &args) {
  std::string value = "auto";
  for (size_t i = 0; i < args.size() && args[i] != "--"; ++i) {
    if (args[i].rfind("--color=", 0) == 0) value = args[i].substr(8);
    if (args[i] == "--color" && i + 1 < args.size()) value = args[i + 1];
  }
  return value;
}

bool contains(const std::vector<std::string> &args, const std::string &what) {
  for (const std::string &a : args) {
    if (a == "--") return false;
    if (a == what) return true;
  }
  return false;
}

/// `opc __complete --line LINE` or `opc __complete -- WORD...`: for the scripts of opc completion.
int complete(const std::vector<std::string> &args, Terminal &terminal) {
  if (args.size() >= 3 && args[1] == "--line") return terminal.out(completionsOfLine(args[2])), kExitOk;
  if (args.size() >= 2 && args[1] == "--")
    terminal.out(completionsText(std::vector<std::string>(args.begin() + 2, args.end())));
  return kExitOk;
}

/// What a process does for the command that it has been asked for, before its arguments are read.
void setUp(const CommandSpec &spec, char **argv, Terminal &terminal) {
  if (spec.executesKernels) boundThreadSpinning(argv); // may begin anew, with another environment
  if (!spec.isRankJob) return;
  if (const auto launched = runtime::launchedRank(); launched && launched->rank > 0)
    terminal.mute(); // the first of a job's processes speaks for all
}

/// The options that are not given get the values of the settings. An error leaves them all as they are.
Status readSettings(CommandSpec &spec, SharedFlags &flags, const ParsedArguments &parsed, Config *config) {
  if (spec.settings == SettingsUse::kNone) return Status::ok();
  OPC_ASSIGN_OR_RETURN(Config read, Config::load(flags.directory, flags.config));
  const SharedFlags given = flags;
  for (const std::vector<Option> &options : {spec.options, flags.options()})
    if (Status s = read.apply(options, parsed.given); !s) return flags = given, s;
  *config = std::move(read);
  return Status::ok();
}

/// What nobody has expected is a failure like others, but for the memory's end.
Outcome<int> runGuarded(Command &command, Invocation &invocation, const std::vector<std::string> &positional) {
  std::string what;
  try {
    return command.run(invocation, positional);
  } catch (const std::bad_alloc &) {
    throw;
  } catch (const std::system_error &e) {
    if (e.code() == std::errc::resource_unavailable_try_again)
      return Status(StatusCode::kExecution, "OPC0614", "the system gives no more threads: " + std::string(e.what()))
          .withHelp(kNoThreadHelp);
    what = e.what();
  } catch (const std::exception &e) {
    what = e.what();
  } catch (...) {
    what = "an exception of unknown type";
  }
  return Status(StatusCode::kInternal, "OPC0999", "internal error" + crashPlace() + ": " + what)
      .withHelp(reportAdvice());
}

/// Reports why a command ends; an internal error leaves its bundle.
int fail(Invocation &invocation, const Failure &failure) {
  const int code = invocation.fail(failure);
  if (code != kExitInternal || hasReportedCrash()) return code;
  const bool isFinding = failure.status.isOk() && !failure.findings.empty();
  const std::string replay =
      isFinding ? bundleOfError(failure.findings[0].code, failure.findings[0].message)
                : bundleOfError(failure.status.isOk() ? "OPC0999" : failure.status.id(), failure.status.message());
  if (!replay.empty()) invocation.terminal().err(replay + "\n");
  return code;
}

int runCommand(const std::vector<std::string> &args, char **argv, Terminal &terminal) {
  if (!args.empty() && args[0] == "__complete") return complete(args, terminal);
  if (contains(args, "--help=all")) return terminal.out(helpOfAll(terminal.width())), kExitOk;
  SharedFlags flags;
  const std::vector<Option> shared = flags.options();
  const size_t at = firstPositional(shared, args);
  // A failure before the flags are known still answers --json with JSON.
  auto usageFailure = [&](const Status &status) {
    SharedFlags early;
    early.json = contains(args, "--json");
    return Invocation(early, args, terminal).fail(status);
  };

  if (at == args.size()) {
    CommandSpec root;
    root.name = "COMMAND";
    bool version = false;
    root.options = {{"--version", 0, "", "", &version}};
    Result<ParsedArguments> parsed = parseArguments(root, shared, args);
    if (!parsed) return usageFailure(parsed.status());
    if (version) return terminal.out(versionText(flags.json)), kExitOk;
    if (parsed->shortHelp || parsed->fullHelp)
      return terminal.out(rootHelp(parsed->fullHelp, terminal.width())), kExitOk;
    if (flags.json) return usageFailure(usageError("no command is given", "opc -h lists the commands"));
    terminal.err(rootHelp(false, terminal.width()));
    return kExitUsage;
  }

  const CommandEntry *entry = findCommand(args[at]);
  std::vector<std::string> names;
  for (const CommandEntry &c : commandList())
    if (!c.hidden) names.push_back(c.name);
  if (!entry) {
    for (const Word &word : wordsOf(shared, {args.begin(), args.begin() + static_cast<ptrdiff_t>(at)}))
      if (word.kind == Word::Kind::kOption && word.options.empty())
        return usageFailure(
            usageError("'" + word.text + "' stands before the command and is no option of every command",
                       "options of one command follow its name: opc COMMAND " + word.text));
    const std::vector<std::string> near = nearestNames(args[at], names, 1);
    return usageFailure(usageError("unknown command '" + args[at] + "'",
                                   near.empty() ? "opc -h lists the commands" : "did you mean opc " + near[0] + "?"));
  }
  std::vector<std::string> rest = args;
  rest.erase(rest.begin() + static_cast<ptrdiff_t>(at));

  std::unique_ptr<Command> command = entry->make();
  CommandSpec spec = command->spec();
  spec.name = entry->name;
  setUp(spec, argv, terminal);
  giveBackCode(); // of what ran before main hardly anything runs again
  Result<ParsedArguments> parsed = parseArguments(spec, shared, rest);
  if (!parsed) return usageFailure(parsed.status());
  if (parsed->shortHelp || parsed->fullHelp)
    return terminal.out(helpText(spec, shared, parsed->fullHelp, terminal.width())), kExitOk;
  Config config;
  const Status settings = readSettings(spec, flags, *parsed, &config);
  if (!settings && spec.settings == SettingsUse::kNeeded) return usageFailure(settings);

  flags.isDeviceGiven = parsed->given.count("--device") > 0;
  Invocation invocation(flags, args, terminal);
  invocation.setConfig(std::move(config));
  invocation.setSettingsProblem(settings);
  if (Status s = invocation.start(spec.name, parsed->positional); !s) return invocation.fail(s);
  if (Status s = setCompilerFlags(flags.compilerFlags); !s) return invocation.fail(s);
  if (Status s = setUpCode(invocation); !s) return invocation.fail(s);
  noteCommand(args, parsed->positional, invocation.config(), flags.plugins);
  Outcome<int> code = runGuarded(*command, invocation, parsed->positional);
  return invocation.finish(code ? *code : fail(invocation, code.status()));
}

} // namespace

int main(int argc, char **argv) {
  // A graph is millions of small objects that die together at the end: grow the heap in large steps, never shrink it.
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  installCrashReports();
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  Terminal terminal(colorMode(colorArgument(args)));
  return runProgram(terminal, [&] { return runCommand(args, argv, terminal); });
}
