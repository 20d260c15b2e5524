// opc-runtime: runs a compiled plan, without the compiler.
// SPDX-License-Identifier: Apache-2.0
#include "CommandLine.h"
#include "DiagnosticText.h"
#include "ExitCodes.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "Session.h"
#include "Terminal.h"
#include "ThreadWaiting.h"
#include "ValueGiver.h"
#include "opc/Version.h"

#include <algorithm>
#include <chrono>

using namespace opc;
using namespace opc::cli;

namespace {

struct Request {
  std::vector<std::string> inputs, plugins;
  std::string inputArchive, outputs, print = "summary";
  ValueFlags values;
  SessionOptions session;
  int64_t repeat = 1;
  bool stats = false, version = false;

  CommandSpec spec() {
    return {
        .arguments = "PLAN|-",
        .summary = "run a compiled plan, without the compiler",
        .examples = {"opc-runtime mlp.plan --weights w.npz --input x=@x.npy --outputs out/",
                     "opc-runtime mlp.plan --input x=@in.npz:x --repeat 100 --stats"},
        .options =
            {{"--input", 0, "NAME=SPEC", "a value for an input, as with opc run (repeatable)", &inputs, true},
             {"--inputs", 0, "FILE|DIR", "all inputs from one npz, safetensors or directory", &inputArchive, true},
             {"--weights", 0, "FILE", "variables by name from npz, safetensors or a directory (repeatable)",
              &values.weights, true},
             Option{"--fill", 0, "", "for whatever is missing", &values.fill, true}.oneOf(fillKinds()),
             {"--cast", 0, "", "convert the element type of given tensors where it differs", &values.cast},
             {"--plugin", 0, "LIB", "load the operators of a shared library (repeatable)", &plugins, true},
             {"--outputs", 0, "DIR|FILE", "write all outputs: DIR/NAME.npy, or one npz or safetensors", &outputs, true},
             {"--print", 0, "none|summary|all|N", "what is shown of each output (default summary)", &print, true},
             Option{"--repeat", 0, "N", "run N times", &repeat, true}.range(1, 1e12),
             {"--seed", 0, "N", "for random values and initializers", &values.seed},
             Option{"--max-memory", 0, "SIZE", "refuse plans that need more", &session.maxMemory}.bytes(),
             Option{"", 'j', "N", "threads to use (default: one for each core)", &session.threads}.range(
                 1, 4096, "number of threads"),
             {"--deterministic", 0, "", "sum over ranks in the order of the ranks, whatever the size",
              &session.deterministic},
             {"--stats", 0, "", "times and memory on standard error", &stats, true},
             {"--version", 0, "", "the version", &version}},
        .maxArguments = 1,
        .program = "opc-runtime"};
  }
};

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string statsText(const SessionStats &s, double loading, double preparing, std::vector<double> runs) {
  std::sort(runs.begin(), runs.end());
  return "load " + secondsText(loading) + ", prepare " + secondsText(preparing) + ", " + countText(runs.size()) +
         (runs.size() == 1 ? " run" : " runs") + ": median " + secondsText(runs[runs.size() / 2]) + ", fastest " +
         secondsText(runs.front()) + ", slowest " + secondsText(runs.back()) + "\n" + countText(s.tasks) +
         " tasks on " + std::to_string(s.streams) + (s.streams == 1 ? " stream, " : " streams, ") +
         bytesText(s.arenaBytes) + " of memory, " + bytesText(s.constantBytes) + " of constants and variables\n";
}

Status deliver(const Session &session, const OutputFiles &files, PrintMode mode, Terminal &terminal) {
  std::vector<NamedOutput> outputs;
  for (const PortInfo &port : session.interface().outputs) {
    OPC_ASSIGN_OR_RETURN(HostTensor t, session.fetch(port.name));
    outputs.push_back({port.name, std::move(t)});
    terminal.out(outputText(outputs.back(), mode));
  }
  return files.write(outputs);
}

Status runPlan(Request &r, const std::string &plan, const std::vector<std::string> &words, Terminal &terminal) {
  OPC_ASSIGN_OR_RETURN(const PrintMode mode, parsePrintMode(r.print));
  OPC_ASSIGN_OR_RETURN(const NamedValues inputs, NamedValues::open(r.inputs, r.inputArchive, "--input"));
  Registry registry;
  OPC_RETURN_IF_ERROR(registry.addLinked());
  for (const std::string &plugin : r.plugins)
    if (auto loaded = registry.loadPlugin(plugin); !loaded) return loaded.status();
  registry.freeze();

  auto start = Clock::now();
  OPC_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::open(plan));
  r.session.seed = r.values.seed;
  r.session.keepPackedVariables = false;
  r.session.ranks = 0; // whatever the plan is for, as threads; opc run has the way to processes
  Result<Session> session = Session::load(file.view(), registry, r.session);
  if (!session) return Status(session.status()).withContext("loading " + plan);
  const double loading = secondsSince(start);
  OPC_ASSIGN_OR_RETURN(const OutputFiles files, OutputFiles::plan({}, r.outputs, session->interface().outputs, plan));
  r.values.program = "opc-runtime";
  OPC_ASSIGN_OR_RETURN(const ValueReport given, giveValues(*session, inputs, r.values, words));
  for (const std::string &n : given.notes) terminal.err("note: " + n + "\n");
  start = Clock::now();
  OPC_RETURN_IF_ERROR(session->prepare());
  const double preparing = secondsSince(start);
  std::vector<double> times;
  for (int64_t i = 0; i < r.repeat; ++i) {
    start = Clock::now();
    OPC_RETURN_IF_ERROR(session->run());
    times.push_back(secondsSince(start));
  }
  OPC_RETURN_IF_ERROR(deliver(*session, files, mode, terminal));
  if (r.stats) terminal.err(statsText(session->stats(), loading, preparing, std::move(times)));
  return Status::ok();
}

Status runCommand(const std::vector<std::string> &words, Terminal &terminal) {
  Request request;
  const CommandSpec spec = request.spec();
  OPC_ASSIGN_OR_RETURN(const ParsedArguments parsed, parseArguments(spec, {}, words));
  if (parsed.shortHelp || parsed.fullHelp)
    return terminal.out(helpText(spec, {}, parsed.fullHelp, terminal.width())), Status::ok();
  if (request.version) return terminal.out("opc-runtime " OPC_VERSION_STRING "\n"), Status::ok();
  if (parsed.positional.empty()) return usageError("opc-runtime needs PLAN|-", "opc-runtime -h");
  return runPlan(request, parsed.positional[0], words, terminal);
}

} // namespace

int main(int argc, char **argv) {
  boundThreadSpinning(argv);
  Terminal terminal;
  Status status;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    status = Status(StatusCode::kUnsupported, "OPC0007", "this processor lacks AVX2 or FMA, which opc's kernels need")
                 .withHelp("run opc on an x86-64-v3 machine (Haswell or Zen and later)");
  try {
    if (status) status = runCommand(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), terminal);
  } catch (const std::bad_alloc &) {
    status = Status(StatusCode::kExecution, "OPC0614", "out of memory");
  } catch (const std::exception &e) {
    status = Status(StatusCode::kInternal, "OPC0999", std::string("unexpected exception: ") + e.what());
  }
  if (status) status = terminal.flush();
  if (!status) terminal.err(statusText(status, terminal.colorErr()));
  return exitCodeOf(status.code());
}
