// opc-runtime: runs a compiled plan, without the compiler.
// SPDX-License-Identifier: Apache-2.0
#include "AllowTf32.h"
#include "CommandLine.h"
#include "DiagnosticText.h"
#include "ExitCodes.h"
#include "FileUse.h"
#include "Invocation.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "Program.h"
#include "PythonPlugins.h"
#include "RunTimes.h"
#include "Session.h"
#include "StopSignal.h"
#include "ThreadWaiting.h"
#include "ValueGiver.h"
#include "opc/Version.h"

#include <algorithm>
#include <chrono>

using namespace opc;
using namespace opc::cli;

namespace {

struct Request {
  std::vector<std::string> plugins, opPaths;
  std::string outputs;
  PrintMode print;
  ValueFlags values;
  SessionOptions session;
  int64_t repeat = 1;
  bool stats = false, version = false, allowTf32 = false;

  CommandSpec spec() {
    CommandSpec s{.arguments = "PLAN|-",
                  .summary = "run a compiled plan, without the compiler",
                  .examples = {"opc-runtime mlp.plan --weights w.npz --input x=@x.npy --outputs out/",
                               "opc-runtime mlp.plan --input x=@in.npz:x --repeat 100 --stats"},
                  .options = values.options(),
                  .maxArguments = 1,
                  .program = "opc-runtime"};
    values.program = s.program;
    for (Option &o : std::vector<Option>{
             {"--plugin", 0, "LIB", "load the operators of a shared library (repeatable)", &plugins, true},
             {"--op-path", 0, "DIR", "a folder whose Python operators may run (repeatable)", &opPaths, true},
             {"--outputs", 0, "DIR|FILE", "write all outputs: DIR/NAME.npy, or one npz or safetensors", &outputs, true},
             printOption(&print),
             Option{"--repeat", 0, "N", "run N times", &repeat, true}.range(1, 1e12),
             Option{"--max-memory", 0, "SIZE", "refuse plans that need more", &session.maxMemory}.bytes(),
             Option{"", 'j', "N", "threads to use (default: one for each core)", &session.threads}.range(
                 1, 4096, "number of threads"),
             {"--deterministic", 0, "", "sum over ranks in the order of the ranks, whatever the size",
              &session.deterministic},
             {"--allow-native", 0, "", "run the machine code that a plan brings: as trusted as this program",
              &session.allowNative},
             {"--allow-tf32", 0, "", "on GPUs: products of f32 may round their factors to TF32, of 11 significant bits",
              &allowTf32},
             {"--stats", 0, "", "times and memory on standard error", &stats, true},
             {"--version", 0, "", "the version", &version}})
      s.options.push_back(std::move(o));
    return s;
  }
};

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string statsText(const SessionStats &s, double loading, double preparing, std::vector<double> runs) {
  return "load " + secondsText(loading) + ", prepare " + secondsText(preparing) + ", " + runTimesText(std::move(runs)) +
         "\n" + sizeText(s) + "\n";
}

/// `signal`: the one that ended the runs early, else 0.
Status runPlan(Request &r, const std::string &plan, const std::vector<std::string> &words, Terminal &terminal,
               int *signal) {
  limitTensorReads(r.session.maxMemory ? r.session.maxMemory : defaultMemoryLimit());
  OPC_ASSIGN_OR_RETURN(const NamedValues inputs, r.values.open());
  OPC_ASSIGN_OR_RETURN(const Registry registry, loadRegistry(withPythonOps(r.plugins, r.opPaths, plan)));
  auto start = Clock::now();
  OPC_ASSIGN_OR_RETURN(FileBytes opened, FileBytes::open(plan));
  const auto file = std::make_shared<const FileBytes>(std::move(opened));
  if (file->isMapped()) r.session.planBytes = file;
  r.session.seed = r.values.seed.value_or(0);
  r.session.keepPackedVariables = false;
  r.session.ranks = 0; // whatever the plan is for, as threads; opc run has the way to processes
  const AllowTf32 products(r.allowTf32);
  Result<Session> session = Session::load(file->view(), registry, r.session);
  if (!session) return Status(session.status()).withContext("loading " + plan);
  const double loading = secondsSince(start);
  OPC_ASSIGN_OR_RETURN(const OutputFiles files, OutputFiles::plan({}, r.outputs, session->interface().outputs, plan));
  FileUse use;
  use.readsValues(r.values);
  use.wantsNamesOf(session->interface());
  for (const auto &[name, path] : files.files()) OPC_RETURN_IF_ERROR(use.writes(path, "--outputs"));
  OPC_RETURN_IF_ERROR(use.writes(files.archive(), "--outputs"));
  OPC_ASSIGN_OR_RETURN(const ValueReport given, giveValues(*session, inputs, r.values, words));
  for (const std::string &n : given.notes) terminal.err("note: " + n + "\n");
  start = Clock::now();
  OPC_RETURN_IF_ERROR(session->prepare());
  const double preparing = secondsSince(start);
  std::vector<double> times;
  const StopSignal stop;
  for (int64_t i = 0; i < r.repeat && (i == 0 || !stop.caught()); ++i) {
    start = Clock::now();
    OPC_RETURN_IF_ERROR(session->run());
    times.push_back(secondsSince(start));
  }
  OPC_RETURN_IF_ERROR(mappedFilesAreWhole());
  OPC_ASSIGN_OR_RETURN(const std::vector<NamedOutput> outputs, fetchAll(*session));
  for (const NamedOutput &o : outputs) terminal.out(outputText(o, r.print));
  OPC_RETURN_IF_ERROR(files.write(outputs));
  if (r.stats || stop.caught()) terminal.err(statsText(session->stats(), loading, preparing, std::move(times)));
  *signal = stop.caught();
  return Status::ok();
}

Status runCommand(const std::vector<std::string> &words, Terminal &terminal, int *signal) {
  Request request;
  const CommandSpec spec = request.spec();
  OPC_ASSIGN_OR_RETURN(const ParsedArguments parsed, parseArguments(spec, {}, words));
  if (parsed.shortHelp || parsed.fullHelp)
    return terminal.out(helpText(spec, {}, parsed.fullHelp, terminal.width())), Status::ok();
  if (request.version) return terminal.out("opc-runtime " OPC_VERSION_STRING "\n"), Status::ok();
  if (parsed.positional.empty()) return usageError("opc-runtime needs PLAN|-", "opc-runtime -h");
  OPC_RETURN_IF_ERROR(checkOpPaths(request.opPaths));
  return runPlan(request, parsed.positional[0], words, terminal, signal);
}

} // namespace

int main(int argc, char **argv) {
  boundThreadSpinning(argv);
  Terminal terminal;
  return runProgram(terminal, [&] {
    int signal = 0;
    const Status s = runCommand(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), terminal, &signal);
    if (!s) terminal.err(statusText(s, terminal.colorErr()));
    return s && signal ? 128 + signal : exitCodeOf(s.code());
  });
}
