// opc run: a graph or plan with values in, values out, compared with what was expected.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "Expectations.h"
#include "Log.h"
#include "NumberText.h"
#include "RunCapture.h"
#include "RunPlan.h"
#include "RunRanks.h"
#include "RunReference.h"
#include "RunTrap.h"
#include "TrainingRun.h"

#include <algorithm>
#include <chrono>

namespace opc::cli {

namespace {

struct Timing {
  std::vector<double> seconds; // one a measured run, sorted
  double median() const { return seconds.empty() ? 0 : seconds[seconds.size() / 2]; }
};

/// How long each part of the command took, for --timing.
class Stopwatch {
public:
  void lap(const std::string &part) {
    const auto now = std::chrono::steady_clock::now();
    laps_.push_back({part, std::chrono::duration<double>(now - last_).count()});
    last_ = now;
  }
  std::string text() const {
    std::string text;
    double total = 0;
    for (const auto &l : laps_) {
      total += l.second;
      text += (text.empty() ? "" : ", ") + l.first + " " + secondsText(l.second);
    }
    return "time: " + text + "; in all " + secondsText(total) + "\n";
  }
  Json json() const {
    Json j = Json::object();
    for (const auto &l : laps_) j[l.first] = l.second;
    return j;
  }

private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> laps_;
};

/// Several observers as one. The last is the closest to the task: what it measures is the task alone.
class Observers final : public RunObserver {
public:
  void add(RunObserver *observer) { list_.push_back(observer); }
  bool empty() const { return list_.empty(); }
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override {
    for (RunObserver *o : list_) OPC_RETURN_IF_ERROR(o->before(task, step, data));
    return Status::ok();
  }
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override {
    for (auto o = list_.rbegin(); o != list_.rend(); ++o) OPC_RETURN_IF_ERROR((*o)->after(task, step, data));
    return Status::ok();
  }

private:
  std::vector<RunObserver *> list_;
};

class RunCommand final : public Command {
public:
  CommandSpec spec() override {
    CommandSpec s;
    s.name = "run";
    s.arguments = "GRAPH|PLAN|-";
    s.summary = "execute a graph or plan; compare with expected values";
    s.examples = {"opc run mlp.pbtxt --fill rand --seed 7",
                  "opc run mlp.pbtxt --weights w.npz --input x=@x.npy --expect y=@y.npy",
                  "opc run mlp.plan --inputs in.npz --outputs out/",
                  "opc run relu.pbtxt --input 'x=f32[5]:-2,-1,0,1,2' --print all",
                  "opc run mlp.pbtxt --fill rand --until relu0 --print 8",
                  "opc run mlp.pbtxt --inputs in.npz --trap nan,inf",
                  "opc run mlp.pbtxt --fill rand --ranks 4"};
    s.options = {
        {"--input", 0, "NAME=SPEC",
         "a value for an input or variable (repeatable): x=@x.npy, x=@in.npz:key, 'x=f32[2,3]:@x.bin', x=1,2,3, "
         "x=3.5, 'x=f32[4]:rand(-1,1)', x=randn, x=iota",
         &inputs_, true},
        {"--inputs", 0, "FILE|DIR", "all inputs from one npz, safetensors, or directory of npy or ONNX .pb files",
         &inputArchive_, true},
        {"--weights", 0, "FILE", "variables by name from npz or safetensors (repeatable)", &values_.weights, true},
        Option{"--fill", 0, "", "for whatever is missing", &values_.fill, true}.oneOf(fillKinds()),
        {"--seed", 0, "N", "for random values (default 0)", &seed_},
        {"--cast", 0, "", "convert the element type of given tensors where it differs", &values_.cast},
        {"--output", 0, "NAME=FILE",
         "write an output: .npy, .npz, .safetensors, .pb, .bin; - is standard output (repeatable)", &outputs_, true},
        {"--outputs", 0, "DIR|FILE", "write all outputs: DIR/NAME.npy, or one npz or safetensors", &outputArchive_,
         true},
        Option{"--outputs-as", 0, "",
               "what a directory gets: NAME.npy (default), or an ONNX data set's output_0.pb, ...", &outputsAs_}
            .oneOf({"npy", "pb"}),
        {"--print", 0, "none|summary|all|N", "what is shown of each output (default summary); N: that many values",
         &print_, true}};
    auto append = [&](std::vector<Option> more) { s.options.insert(s.options.end(), more.begin(), more.end()); };
    append(expect_.options());
    append({Option{"--reference", 0, "",
                   "run the graph a second time on the CPU, not simplified, nothing fused or in place, and compare",
                   &reference_}
                .oneOf({"cpu"})});
    append(cut_.options());
    append(
        {{"--capture", 0, "GLOB=DIR", "write the tensors inside the graph whose names fit: DIR/NAME.npy (repeatable)",
          &captures_},
         {"--capture-stats", 0, "FILE", "statistics of every tensor as JSON lines; no tensor is kept", &captureStats_},
         {"--trap", 0, "KINDS",
          "nan, inf, denormal: stop at the first op that makes one, and leave it as a case that runs alone", &trap_},
         {"--trace", 0, "FILE", "compilation and tasks as Chrome trace events (Perfetto)", &trace_},
         {"--no-fuse", 0, "", "leave every op as it is written: no fused ops, no other layouts", &noFuse_},
         {"--no-simplify", 0, "", "keep every op of the graph, so that every tensor can be captured", &noSimplify_},
         {"--shape", 0, "NAME=DIMS", "the shape of an input, in place of the graph's: x=32,784 (repeatable)", &shapes_},
         Option{"--repeat", 0, "N", "run N times and say how long it took", &repeat_}.range(1, 1000000000),
         Option{"--warmup", 0, "N", "runs before the first that is measured", &warmup_}.range(0, 1000000000),
         Option{"--max-memory", 0, "SIZE",
                "refuse plans that need more: 800M, 16G (default: nine tenths of the machine's)", &maxMemory_}
             .bytes(),
         {"--stats", 0, "", "time by phase, tasks and memory", &stats_},
         {"--timing", 0, "", "how long reading, compiling, loading and running took", &timing_}});
    append(ranks_.options());
    append(training_.options());
    s.details =
        "An output passes when |got - expected| <= atol + rtol * |expected| for each value. Defaults (rtol, atol): f64 "
        "1e-7, 1e-9; "
        "f32 1.3e-6, 1e-5; f16 1e-3, 1e-3; bf16 1.6e-2, 1e-2; integers and bool 0, 0. A mismatch gives exit code 1.\n"
        "NAME is what stands before the first '='. A dimension that the graph gives as -1 takes its value from the "
        "tensor that is fed.\n"
        "--capture, --capture-stats and --trap see each tensor right after its op has run, in the plan that would run "
        "without them. What simplification removed or fusion joined is not there; --no-fuse and --no-simplify (which "
        "implies it) "
        "keep it.";
    s.minArguments = s.maxArguments = 1;
    s.executesKernels = s.isRankJob = true;
    return s;
  }

  int run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (Status s = ranks_.readFlags(); !s) return invocation.fail(s);
    if (Status s = ranks_.start(invocation, positional[0]); !s) return invocation.fail(s);
    return ranks_.finish(invocation, runHere(invocation, positional));
  }

private:
  int runHere(Invocation &invocation, const std::vector<std::string> &positional) {
    if (Status s = readFlags(invocation, positional[0]); !s) return invocation.fail(s);
    RunTrace trace;
    RunTrace *tracing = trace_.empty() ? nullptr : &trace;
    // Files that do not exist are found before a long compilation, not after it.
    Result<NamedValues> inputs = NamedValues::open(inputs_, inputArchive_, "--input");
    if (!inputs) return invocation.fail(inputs.status());
    if (training_.isRequested())
      return training_.run(invocation, {positional[0], &*inputs, values_, seed_.has_value(), compileOptions_,
                                        sessionOptions(invocation, true), ranks_.isFirst()});
    if (Status s = expect_.open(); !s) return invocation.fail(s);
    if (Status s = cut_.open(); !s) return invocation.fail(s);
    Result<GraphInput> input = readGraphInput(positional[0]);
    if (!input) return invocation.fail(input.status());
    if (input->isPlan && !reference_.empty())
      return invocation.fail(usageError("--reference needs the graph, and " + input->name + " is a plan"));
    Result<Registry> registry = invocation.loadRegistry();
    if (!registry) return invocation.fail(registry.status());
    watch_.lap("read");

    int failure = kExitOk;
    RunPlanner planner(invocation, *registry, tracing);
    const std::string plan =
        planner.plan(*input, compileOptions_, cut_, *inputs, values_, !reference_.empty(), &failure);
    if (failure) return failure;
    if (stats_ && !invocation.flags().json) invocation.terminal().err(planner.phasesText());
    watch_.lap("compile");
    double start = trace.now();
    Result<Session> session = Session::load(plan, *registry, sessionOptions(invocation, true));
    if (!session) return invocation.fail(session.status());
    trace.span("load the plan", start);
    if (tracing)
      if (Result<PlanDescription> description = describePlan(plan, *registry, ranks_.rank()))
        trace.memory(*description);

    Result<OutputFiles> files =
        OutputFiles::plan(outputs_, outputArchive_, session->interface().outputs, positional[0], outputsAs_ == "pb");
    if (!files) return invocation.fail(files.status());
    if (files->usesStdout() && invocation.flags().json)
      return invocation.fail(usageError("an output and the JSON both want standard output"));
    if (files->usesStdout()) printMode_.kind = PrintMode::Kind::kNone;
    std::vector<std::string> notes = planner.notes();
    Result<std::vector<Expectation>> expectations = expect_.read(*session, values_, &notes);
    if (!expectations) return invocation.fail(expectations.status());
    start = trace.now();
    Result<ValueReport> given = giveValues(*session, *inputs, values_, invocation.commandLine());
    if (!given) return invocation.fail(given.status());
    notes.insert(notes.end(), given->notes.begin(), given->notes.end());
    trace.span("give values", start);
    start = trace.now();
    if (Status s = session->prepare(); !s) return invocation.fail(s);
    trace.span("prepare kernels", start);
    watch_.lap("load");

    Timing timing;
    if (int code = execute(invocation, *session, tracing, &timing, &notes)) return code;
    watch_.lap("run");
    Result<std::vector<NamedOutput>> results = fetchAll(*session);
    if (!results) return invocation.fail(results.status());
    if (!reference_.empty()) {
      const std::string plain = planner.referencePlan(*input, compileOptions_, &failure);
      if (failure) return failure;
      if (Status s = referenceRun_.run(invocation, plain, *registry, sessionOptions(invocation, false), *inputs,
                                       values_, warmup_.value_or(0) + repeat_.value_or(1), &*expectations);
          !s)
        return invocation.fail(s);
      watch_.lap("reference");
    }
    start = trace.now();
    if (ranks_.isFirst())
      if (Status s = files->write(*results); !s) return invocation.fail(s);
    trace.span("write outputs", start);
    if (tracing) {
      if (ranks_.isFirst())
        if (Status s = trace.write(trace_); !s) return invocation.fail(s);
      notes.push_back("trace in " + trace_ + (trace.truncated() ? "; it has the first million tasks" : ""));
    }
    return report(invocation, *session, input->name, planner.phases(), *given, *results, *expectations, *files, timing,
                  notes);
  }

  Status readFlags(const Invocation &invocation, const std::string &graph) {
    OPC_RETURN_IF_ERROR(training_.readFlags());
    if (training_.isRequested()) OPC_RETURN_IF_ERROR(checkTraining());
    Result<PrintMode> mode = parsePrintMode(print_);
    if (!mode) return mode.status();
    printMode_ = *mode;
    OPC_RETURN_IF_ERROR(expect_.parse(invocation.config().tolerances()));
    values_.seed = seed_.value_or(0);
    if (!trap_.empty()) {
      Result<TrapKinds> kinds = parseTrap(trap_);
      if (!kinds) return kinds.status();
      trapKinds_ = *kinds;
    }
    if (trace_ == "-" && invocation.flags().json) return usageError("the trace and the JSON both want standard output");
    if (!trace_.empty()) OPC_RETURN_IF_ERROR(checkOutputPath(trace_, graph));
    if (ranks_.ranks() > 1 && (!captures_.empty() || !captureStats_.empty() || !trap_.empty()))
      return usageError("--capture, --capture-stats and --trap look at one rank: a tensor is in pieces on several",
                        "leave out --ranks");
    compileOptions_.mesh = ranks_.mesh();
    compileOptions_.simplify = !noSimplify_;
    // A fused relu hides the NaN that a trap looks for.
    compileOptions_.fuse = !noFuse_ && !noSimplify_ && trap_.empty();
    Result<std::map<std::string, std::vector<int64_t>>> shapes = parseShapeFlags(shapes_);
    if (!shapes) return shapes.status();
    compileOptions_.shapes = *shapes;
    return Status::ok();
  }

  /// What looks at one run has no place among thousands of steps.
  Status checkTraining() const {
    const bool looks = !outputs_.empty() || !outputArchive_.empty() || expect_.any() || repeat_ || warmup_ ||
                       cut_.any() || !captures_.empty() || !captureStats_.empty() || !trap_.empty() ||
                       !trace_.empty() || !reference_.empty();
    if (!looks) return Status::ok();
    return usageError("--output, --expect, --repeat, --warmup, --until, --feed, --only, --capture, --trap, --trace and "
                      "--reference do not go with --feed-dataset",
                      "train with --save ckpt.safetensors, then opc run GRAPH --weights ckpt.safetensors");
  }

  SessionOptions sessionOptions(const Invocation &invocation, bool onRanks) const {
    SessionOptions options;
    if (onRanks) ranks_.setSession(&options);
    options.threads = invocation.threads();
    options.seed = values_.seed;
    options.maxMemory = maxMemory_.value_or(0);
    // Whoever looks at single tasks looks at their weights, too.
    options.keepPackedVariables =
        training_.isRequested() || !trap_.empty() || !captures_.empty() || !captureStats_.empty();
    return options;
  }

  /// Runs; 0, or the exit code of a failure that has been reported.
  int execute(Invocation &invocation, Session &session, RunTrace *trace, Timing *timing,
              std::vector<std::string> *notes) {
    Observers always, last; // captures are of the last run alone
    RunTrap trap(trapKinds_, trap_, invocation.flags().plugins);
    RunCapture capture;
    const bool captures = !captures_.empty() || !captureStats_.empty();
    if (!trap_.empty()) always.add(&trap), last.add(&trap);
    if (captures) {
      session.observe(&capture); // the tasks are known from here on
      if (Status s = capture.open(captures_, captureStats_, session.tasks()); !s) return invocation.fail(s);
      last.add(&capture);
    }
    if (trace) always.add(trace), last.add(trace);
    session.observe(always.empty() ? nullptr : &always);
    Progress &progress = invocation.progress();
    progress.begin("running", static_cast<uint64_t>(warmup_.value_or(0) + repeat_.value_or(1)));
    Status status;
    for (int64_t i = 0; status && i < warmup_.value_or(0) + repeat_.value_or(1); ++i) {
      if (i + 1 == warmup_.value_or(0) + repeat_.value_or(1) && captures) session.observe(&last);
      const auto start = std::chrono::steady_clock::now();
      status = session.run();
      if (i >= warmup_.value_or(0))
        timing->seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      progress.advance(static_cast<uint64_t>(i + 1));
    }
    progress.clear();
    session.observe(nullptr);
    std::sort(timing->seconds.begin(), timing->seconds.end());
    if (status && captures) status = capture.finish(notes);
    if (status) return kExitOk;
    // A trace of a run that failed shows how far it came.
    if (trace && !status && ranks_.isFirst())
      if (Status s = trace->write(trace_); !s) invocation.fail(s);
    // A graph of one op is a case already.
    if (trap.fired() && session.tasks().size() > 1) {
      Result<std::string> folder = trap.dump(session);
      if (!folder) {
        invocation.fail(status);
        return invocation.fail(folder.status());
      }
      const std::string where = "the op and its inputs are in " + *folder + ": sh " + *folder + "/run.sh runs it alone";
      status = Status(status.code(), status.id(), status.message())
                   .withHelp(status.help().empty() ? where : status.help() + "; " + where)
                   .withContext(status.context());
    }
    return invocation.fail(status);
  }

  static Result<std::vector<NamedOutput>> fetchAll(const Session &session) {
    std::vector<NamedOutput> results;
    for (const PortInfo &p : session.interface().outputs) {
      Result<HostTensor> t = session.fetch(p.name);
      if (!t) return t.status();
      results.push_back({p.name, std::move(*t)});
    }
    return results;
  }

  int report(Invocation &invocation, Session &session, const std::string &graph, const Json &phases,
             const ValueReport &given, const std::vector<NamedOutput> &results,
             const std::vector<Expectation> &expectations, const OutputFiles &files, const Timing &timing,
             const std::vector<std::string> &notes) {
    Terminal &terminal = invocation.terminal();
    const bool json = invocation.flags().json;
    for (const std::string &n : notes) invocation.note("note: " + n);
    Json outputs = Json::array(), compared = Json::array();
    for (const NamedOutput &o : results) {
      if (json)
        outputs.push_back(outputJson(o, printMode_));
      else
        terminal.out(outputText(o, printMode_));
    }
    for (size_t i = 0; json && i < outputs.size(); ++i)
      for (const auto &f : files.files())
        if (f.first == results[i].name) outputs[i]["file"] = f.second;

    bool passed = true;
    for (const Expectation &e : expectations)
      for (const NamedOutput &o : results)
        if (o.name == e.name) passed &= expect_.compare(invocation, o, e, &compared);
    std::string where; // the first tensor in which the two differ
    if (!passed && !reference_.empty() && session.ranks() == 1) {
      Result<std::string> found = referenceRun_.firstDifference(session, expect_);
      if (!found) return invocation.fail(found.status());
      where = *found;
      if (!where.empty()) terminal.err(where + "\n");
    }

    const SessionStats stats = session.stats();
    std::vector<RankStats> ranks;
    if (session.ranks() > 1 && (stats_ || invocation.flags().verbose)) {
      Result<std::vector<RankStats>> all = session.rankStats();
      if (!all) return invocation.fail(all.status());
      ranks = std::move(*all);
    }
    if (!json) {
      if (repeat_.value_or(1) > 1)
        invocation.note(countText(static_cast<uint64_t>(repeat_.value_or(1))) + " runs: median " +
                        secondsText(timing.median()) + ", fastest " + secondsText(timing.seconds.front()) +
                        ", slowest " + secondsText(timing.seconds.back()));
      if (stats_)
        terminal.err(countText(stats.tasks) + " tasks on " + std::to_string(stats.streams) +
                     (stats.streams == 1 ? " stream, " : " streams, ") + bytesText(stats.arenaBytes) + " of memory, " +
                     bytesText(stats.constantBytes) + " of constants and variables, " + secondsText(timing.median()) +
                     " a run\n");
      terminal.err(rankStatsText(ranks));
      if (timing_) terminal.err(watch_.text());
      return passed ? kExitOk : kExitNo;
    }
    Json inputs = Json::array();
    for (const ValueReport::Row &r : given.rows)
      inputs.push_back({{"name", r.name},
                        {"kind", r.kind},
                        {"dtype", dtypeJson(r.desc.data_type())},
                        {"shape", shapeJson(r.desc.shape())},
                        {"source", r.origin}});
    Json document = {{"schema", 1},
                     {"graph", graph},
                     {"inputs", std::move(inputs)},
                     {"outputs", std::move(outputs)},
                     {"notes", notes}};
    if (!expectations.empty()) {
      document["passed"] = passed;
      document["expectations"] = std::move(compared);
      if (!where.empty()) document["first_difference"] = where;
    }
    document["timing"] = {{"runs", repeat_.value_or(1)},
                          {"median_s", timing.median()},
                          {"min_s", timing.seconds.front()},
                          {"max_s", timing.seconds.back()}};
    if (timing_) document["timing"]["parts_s"] = watch_.json();
    if (stats_)
      document["stats"] = {{"tasks", stats.tasks},
                           {"streams", stats.streams},
                           {"arena_bytes", stats.arenaBytes},
                           {"constant_bytes", stats.constantBytes},
                           {"phases", phases}};
    for (const RankStats &r : ranks)
      document["ranks"].push_back({{"rank", r.rank},
                                   {"arena_bytes", r.arenaBytes},
                                   {"bytes_sent", r.bytesSent},
                                   {"bytes_received", r.bytesReceived},
                                   {"messages", r.messages}});
    terminal.out(jsonText(document));
    return passed ? kExitOk : kExitNo;
  }

  std::vector<std::string> inputs_, outputs_, shapes_, captures_;
  std::string inputArchive_, outputArchive_, print_ = "summary", outputsAs_ = "npy", reference_, captureStats_, trap_,
                                             trace_;
  std::optional<int64_t> repeat_, warmup_;
  std::optional<uint64_t> seed_, maxMemory_;
  ValueFlags values_;
  bool stats_ = false, timing_ = false, noSimplify_ = false, noFuse_ = false;
  PrintMode printMode_;
  ExpectFlags expect_;
  CutFlags cut_;
  ReferenceRun referenceRun_;
  RankJob ranks_;
  TrainingRun training_;
  TrapKinds trapKinds_;
  CompileOptions compileOptions_;
  Stopwatch watch_;
};

} // namespace

std::unique_ptr<Command> makeRunCommand() { return std::make_unique<RunCommand>(); }

} // namespace opc::cli
