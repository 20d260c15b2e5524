// One run: plan, give values, execute. The report is a file of its own.
// SPDX-License-Identifier: Apache-2.0
#include "RunSteps.h"

#include "AllowTf32.h"
#include "FileBytes.h"
#include "FreedMemory.h"
#include "ModelValues.h"
#include "RunCapture.h"
#include "RunPlan.h"
#include "StopSignal.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

namespace opc::cli {

namespace {

/// Several observers as one. The last is the closest to the task: what it measures is the task alone.
class Observers final : public RunObserver {
public:
  /// Of the first rank here, or of all of them.
  void add(RunObserver *observer) { list_.push_back({observer, false}); }
  void addOnAllRanks(RunObserver *observer) { list_.push_back({observer, onAllRanks_ = true}); }
  void observe(Session &session) {
    first_ = session.rank();
    session.observe(list_.empty() ? nullptr : this, onAllRanks_);
  }
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override {
    for (const One &o : list_)
      if (sees(o, task)) OPC_RETURN_IF_ERROR(o.observer->before(task, step, data));
    return Status::ok();
  }
  bool wantsPrepared() const override {
    return std::any_of(list_.begin(), list_.end(), [](const One &o) { return o.observer->wantsPrepared(); });
  }
  bool wantsInnerTimes() const override {
    return std::any_of(list_.begin(), list_.end(), [](const One &o) { return o.observer->wantsInnerTimes(); });
  }
  void inner(const ObservedTask &task, int64_t step, const std::vector<InnerTime> &times) override {
    for (const One &o : list_)
      if (sees(o, task)) o.observer->inner(task, step, times);
  }
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override {
    for (auto o = list_.rbegin(); o != list_.rend(); ++o)
      if (sees(*o, task)) OPC_RETURN_IF_ERROR(o->observer->after(task, step, data));
    return Status::ok();
  }

private:
  struct One {
    RunObserver *observer;
    bool onAllRanks;
  };
  bool sees(const One &o, const ObservedTask &task) const {
    return (o.onAllRanks || task.rank == first_) && (!task.isPrepared || o.observer->wantsPrepared());
  }
  std::vector<One> list_;
  bool onAllRanks_ = false;
  int64_t first_ = 0;
};

/// Whoever looks at a run while it runs.
struct Watchers {
  explicit Watchers(const RunContext &c)
      : trap(c.options.trap, {c.options.graph, c.invocation.flags().plugins, c.invocation.flags().opPaths}),
        captures(!c.options.captures.empty() || !c.options.captureStats.empty()) {}

  Status open(RunContext &c, Session &session) {
    if (c.options.trap.any()) always.add(&trap), last.add(&trap);
    if (captures) {
      session.observe(&capture); // the tasks are known from here on
      OPC_RETURN_IF_ERROR(capture.open(c.options.captures, c.options.captureStats, session.tasks(), &c.files));
      last.add(&capture);
    }
    if (c.options.observe.access) always.add(&access), last.add(&access);
    if (c.options.observe.sync) always.add(&turns), last.add(&turns);
    for (Observers *all : {&always, &last}) {
      if (c.isTraced()) all->addOnAllRanks(&c.trace);
      if (!c.options.report.empty()) all->addOnAllRanks(&c.timeline);
      if (c.options.profile) all->add(&c.profile);
    }
    always.observe(session);
    return Status::ok();
  }

  Observers always, last; // captures are of the last run alone
  RunTrap trap;
  RunCapture capture;
  AccessCheck access;
  TaskTurns turns;
  const bool captures;
};

/// When many runs end early. Processes make the same number of them: they ask each other now and then, after as many
/// runs as take the first one of them a tenth of a second.
class EarlyEnd {
public:
  EarlyEnd(const Session &session, int64_t runs) : session_(session) {
    if (runs > 1) stop_.emplace(session.hasPeers()); // the launcher hands on SIGUSR1
  }
  /// Before each run but the first: the signal that ends them, or 0.
  Result<int64_t> signal() {
    if (!stop_ || !session_.hasPeers()) return stop_ ? StopSignal::caught() : 0;
    if (++made_ < next_) return 0;
    OPC_ASSIGN_OR_RETURN(const int64_t caught, session_.agree(StopSignal::caught()));
    if (caught) return caught;
    const double each = std::chrono::duration<double>(Clock::now() - start_).count() / static_cast<double>(made_);
    const int64_t mine = session_.rank() ? 1 : std::clamp<int64_t>(static_cast<int64_t>(0.1 / each), 1, 1 << 20);
    OPC_ASSIGN_OR_RETURN(const int64_t runs, session_.agree(mine));
    next_ = made_ + runs;
    return 0;
  }

private:
  using Clock = std::chrono::steady_clock;
  const Session &session_;
  // Ctrl-C keeps what was measured.
  std::optional<StopSignal> stop_;
  const Clock::time_point start_ = Clock::now();
  int64_t made_ = 0, next_ = 1;
};

Status runAll(RunContext &c, Session &session, Watchers &watchers, ExecutedRun *executed) {
  const int64_t runs = c.options.runs(), warmups = c.options.warmup.value_or(0);
  std::vector<double> *seconds = &executed->seconds;
  EarlyEnd end(session, runs);
  Progress &progress = c.invocation.progress();
  progress.begin("running", static_cast<uint64_t>(runs));
  Status status;
  for (int64_t i = 0; status && i < runs; ++i) {
    if (i > 0) {
      const Result<int64_t> signal = end.signal();
      if (!signal) status = signal.status();
      if (!signal || (executed->signal = static_cast<int>(*signal))) break;
    }
    if (i + 1 == runs && watchers.captures) watchers.last.observe(session);
    c.timeline.begin();
    const auto start = std::chrono::steady_clock::now();
    status = session.run();
    if (i >= warmups)
      seconds->push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    progress.advance(static_cast<uint64_t>(i + 1));
  }
  progress.clear();
  session.observe(nullptr);
  std::sort(seconds->begin(), seconds->end());
  return status;
}

/// What a failed run leaves: a trace that shows how far it came, and the op that fired a trap as a case of its own.
Status afterFailure(RunContext &c, Session &session, const RunTrap &trap, const Status &status) {
  if (c.isTraced() && c.options.ranks.isFirst())
    if (Status s = c.trace.write(c.options.trace); !s) c.invocation.fail(s);
  return trap.withCase(session, status);
}

} // namespace

namespace {

/// The outputs whose paths are known before the graph is. Those in folders follow when their names are known.
Status checkFiles(RunContext &c) {
  const RunOptions &o = c.options;
  c.files = o.filesRead(c.invocation);
  for (const std::string &flag : o.outputs)
    if (const auto named = splitNamed(flag, "--output"))
      OPC_RETURN_IF_ERROR(c.files.writes(named->second, "--output " + flag));
  std::error_code error;
  if (!std::filesystem::is_directory(o.outputArchive, error))
    OPC_RETURN_IF_ERROR(c.files.writes(o.outputArchive, "--outputs"));
  OPC_RETURN_IF_ERROR(c.files.writes(o.trace, "--trace"));
  OPC_RETURN_IF_ERROR(c.files.writes(o.report, "--report"));
  OPC_RETURN_IF_ERROR(checkEnding("--report", o.report, {".html"}));
  return c.files.writes(o.captureStats, "--capture-stats");
}

/// Where folders are read and written, the names of tensors are those of files.
Status checkFolders(RunContext &c, const Session &session, const OutputFiles &outputs) {
  c.files.wantsNamesOf(session.interface());
  for (size_t i = c.options.outputs.size(); i < outputs.files().size(); ++i)
    OPC_RETURN_IF_ERROR(c.files.writes(outputs.files()[i].second, "--outputs"));
  return Status::ok();
}

} // namespace

Outcome<PlannedRun> planRun(RunContext &c) {
  RunOptions &o = c.options;
  PlannedRun planned;
  OPC_RETURN_IF_ERROR(checkFiles(c));
  // Files that do not exist are found before a long compilation, not after it.
  OPC_ASSIGN_OR_RETURN(planned.inputs, o.values.open());
  OPC_RETURN_IF_ERROR(o.expect.open());
  OPC_RETURN_IF_ERROR(o.cut.open());
  OPC_ASSIGN_OR_RETURN(planned.input, readGraphOrRevision(o.graph));
  OPC_RETURN_IF_ERROR(o.checkDeviceOf(c.invocation, planned.input));
  if (planned.input.isPlan && !o.reference.empty())
    return usageError("--reference needs the graph, and " + planned.input.name + " is a plan");
  OPC_ASSIGN_OR_RETURN(Registry registry, c.invocation.loadRegistry(o.graph));
  planned.registry = std::make_unique<Registry>(std::move(registry));
  c.invocation.watch().lap("read");

  RunTrace *trace = c.isTraced() ? &c.trace : nullptr;
  planned.planner = std::make_unique<RunPlanner>(c.invocation, o, *planned.registry, trace);
  double start = c.trace.now();
  Outcome<SharedBytes> plan = planned.planner->plan(planned.input, planned.inputs);
  c.trace.span("compile", start);
  if (!plan) {
    if (trace && o.ranks.isFirst()) // how far it came
      if (Status s = trace->write(o.trace); !s) c.invocation.fail(s);
    return plan.status();
  }
  if (o.stats && !c.invocation.flags().json) c.invocation.terminal().err(planned.planner->phasesText());
  c.notes = planned.planner->notes();
  c.invocation.watch().lap("compile");
  giveBackFreed();
  start = c.trace.now();
  const AllowTf32 products(o.allowTf32);
  SessionOptions options = o.session(c.invocation);
  if (plan->isMapped()) options.planBytes = plan->owner();
  OPC_ASSIGN_OR_RETURN(planned.session, Session::load(*plan, *planned.registry, options));
  c.trace.span("load the plan", start);
  if (!o.report.empty()) {
    OPC_ASSIGN_OR_RETURN(planned.facts, planned.planner->facts(*plan));
  }
  if (o.profile || trace || o.keepsGraph || !o.report.empty()) planned.plan = plan->take();
  return planned;
}

Outcome<GivenRun> giveValues(RunContext &c, PlannedRun &planned) {
  RunOptions &o = c.options;
  GivenRun given;
  OPC_ASSIGN_OR_RETURN(given.files, OutputFiles::plan(o.outputs, o.outputArchive, planned.session->interface().outputs,
                                                      o.graph, o.outputsAs == "pb"));
  OPC_RETURN_IF_ERROR(checkFolders(c, *planned.session, given.files));
  if (given.files.usesStdout() && c.invocation.flags().json)
    return usageError("an output and the JSON both want standard output");
  if (given.files.usesStdout() || o.usesStdout()) o.print.kind = PrintMode::Kind::kNone;
  // Where the plan leaves sizes open, the outputs' shapes follow from the values.
  const bool isOpen = !planned.session->interface().sizes.empty();
  const auto expectations = [&]() -> Status {
    OPC_ASSIGN_OR_RETURN(given.expectations, o.expect.read(*planned.session, o.values, &c.notes));
    if (!o.reference.empty())
      for (const PortInfo &p : planned.session->interface().outputs)
        OPC_RETURN_IF_ERROR(o.expect.checkRows(p.name, p.desc));
    return Status::ok();
  };
  if (!isOpen) OPC_RETURN_IF_ERROR(expectations());
  double start = c.trace.now();
  OPC_ASSIGN_OR_RETURN(const std::set<std::string> own,
                       giveModelValues(*planned.session, planned.planner->modelValues(), planned.inputs, o.values));
  Result<ValueReport> values = giveValues(*planned.session, planned.inputs, o.values, c.invocation.commandLine(), own);
  if (!values) return values.status();
  given.values = std::move(*values);
  c.notes.insert(c.notes.end(), given.values.notes.begin(), given.values.notes.end());
  c.trace.span("give values", start);
  giveBackFreed(); // the kernels that are prepared take the most of a small model's memory
  start = c.trace.now();
  OPC_RETURN_IF_ERROR(planned.session->prepare());
  if (isOpen) OPC_RETURN_IF_ERROR(expectations());
  if (o.profile) // the costs are those of the sizes that the values have
    OPC_RETURN_IF_ERROR(
        c.profile.open(planned.plan, *planned.registry, planned.session->interface().inputs, o.warmup.value_or(0)));
  if (c.isTraced()) OPC_RETURN_IF_ERROR(c.trace.plan(planned.plan, *planned.registry, *planned.session));
  giveBackCode();
  c.trace.span("prepare kernels", start);
  c.invocation.watch().lap("load");
  return given;
}

Outcome<ExecutedRun> execute(RunContext &c, PlannedRun &planned, GivenRun &given) {
  RunOptions &o = c.options;
  Session &session = *planned.session;
  ExecutedRun executed;
  Watchers watchers(c);
  OPC_RETURN_IF_ERROR(watchers.open(c, session));
  double start = c.trace.now();
  Status ran = runAll(c, session, watchers, &executed);
  if (ran) ran = mappedFilesAreWhole();
  c.trace.span("run", start);
  if (ran && watchers.captures && !executed.signal) ran = watchers.capture.finish(&c.notes);
  if (!ran) return afterFailure(c, session, watchers.trap, ran);
  c.invocation.watch().lap("run");
  Result<std::vector<NamedOutput>> outputs = fetchAll(session);
  if (!outputs) return outputs.status();
  executed.outputs = std::move(*outputs);
  if (!o.reference.empty() && !executed.signal) {
    start = c.trace.now();
    Outcome<std::string> plan = planned.planner->referencePlan(planned.input);
    if (!plan) return plan.status();
    OPC_RETURN_IF_ERROR(executed.reference.run(c.invocation, *plan, *planned.registry, o.session(c.invocation, false),
                                               planned.inputs, o.values, planned.planner->modelValues(), o.runs(),
                                               &given.expectations));
    c.trace.span("reference", start);
    c.invocation.watch().lap("reference");
  }
  start = c.trace.now();
  if (o.ranks.isFirst()) OPC_RETURN_IF_ERROR(given.files.write(executed.outputs));
  c.trace.span("write outputs", start);
  const std::vector<ObservedTask> &tasks = session.tasks();
  const bool isOnCpu = std::all_of(tasks.begin(), tasks.end(), [](const ObservedTask &t) { return t.device == "cpu"; });
  if (o.profile && isOnCpu) // what is measured is the CPU's
    OPC_RETURN_IF_ERROR(c.profile.measurePeak(*planned.registry, c.invocation.threads()));
  if (c.isTraced()) {
    OPC_RETURN_IF_ERROR(c.trace.writeOfAll(o.ranks, o.trace));
    c.notes.push_back("trace in " + o.trace + (c.trace.truncated() ? "; it has the first million tasks" : ""));
  }
  return executed;
}

} // namespace opc::cli
