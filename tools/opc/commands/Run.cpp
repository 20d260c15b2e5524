// opc run: a graph or plan with values in, values out, compared with what was expected.
#include "Commands.h"

#include "CompileReport.h"
#include "GraphInput.h"
#include "Log.h"
#include "NumberText.h"
#include "RunResults.h"
#include "RunValues.h"
#include "TensorCompare.h"
#include "TrainingRun.h"

#include <algorithm>
#include <chrono>

namespace opc::cli {

namespace {

/// "[NAME:]X" flags: a value for all outputs and values for single ones.
class ToleranceFlags {
public:
  Status parse(const std::vector<std::string> &texts, const std::string &flag) {
    for (const std::string &text : texts) {
      const size_t colon = text.rfind(':'); // names may hold colons, numbers do not
      const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
      const auto value = parseReal(number);
      if (!value || !(*value >= 0))
        return Status(StatusCode::kUsage, "OPC0003", flag + " takes a number that is not negative, not '" + text + "'")
            .withHelp(flag + " 1e-4, or " + flag + " NAME:1e-4");
      if (colon == std::string::npos)
        all_ = *value;
      else
        byName_[text.substr(0, colon)] = *value;
    }
    return Status::ok();
  }
  double of(const std::string &name, double standard) const {
    auto it = byName_.find(name);
    return it != byName_.end() ? it->second : all_.value_or(standard);
  }
  const std::map<std::string, double> &named() const { return byName_; }

private:
  std::optional<double> all_;
  std::map<std::string, double> byName_;
};

struct Expectation {
  std::string name, origin;
  HostTensor tensor;
};

struct Timing {
  std::vector<double> seconds; // one a measured run, sorted
  double median() const { return seconds.empty() ? 0 : seconds[seconds.size() / 2]; }
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
                  "opc run relu.pbtxt --input 'x=f32[5]:-2,-1,0,1,2' --print all"};
    s.options = {
        {"--input", 0, "NAME=SPEC",
         "a value for an input or variable (repeatable): x=@x.npy, x=@in.npz:key, 'x=f32[2,3]:@x.bin', x=1,2,3, "
         "x=3.5, 'x=f32[4]:rand(-1,1)', x=randn, x=iota",
         &inputs_, true},
        {"--inputs", 0, "FILE|DIR", "all inputs from one npz, safetensors or directory of npy files", &inputArchive_,
         true},
        {"--weights", 0, "FILE", "variables by name from npz or safetensors (repeatable)", &values_.weights, true},
        {"--fill", 0, "HOW", "rand, zeros, ones or iota for whatever is missing", &values_.fill, true},
        {"--seed", 0, "N", "for random values (default 0)", &seed_},
        {"--cast", 0, "", "convert the element type of given tensors where it differs", &values_.cast},
        {"--output", 0, "NAME=FILE",
         "write an output: .npy, .npz, .safetensors, .bin; - is standard output (repeatable)", &outputs_, true},
        {"--outputs", 0, "DIR|FILE", "write all outputs: DIR/NAME.npy, or one npz or safetensors", &outputArchive_,
         true},
        {"--print", 0, "MODE", "none, summary (default), all, or a number of values", &print_, true},
        {"--expect", 0, "NAME=SPEC", "compare an output (repeatable)", &expects_, true},
        {"--expects", 0, "FILE|DIR", "compare all outputs that the file has", &expectArchive_, true},
        {"--rtol", 0, "[NAME:]X", "relative tolerance (defaults by dtype: opc run --help)", &rtol_, true},
        {"--atol", 0, "[NAME:]X", "absolute tolerance", &atol_, true},
        {"--nan", 0, "equal|fail", "whether NaN equals NaN (default fail)", &nan_},
        {"--shape", 0, "NAME=DIMS", "the shape of an input, in place of the graph's: x=32,784 (repeatable)", &shapes_},
        {"--no-fuse", 0, "", "leave every op as it is written: no fused ops, no other layouts", &noFuse_},
        {"--repeat", 0, "N", "run N times and say how long it took", &repeat_},
        {"--warmup", 0, "N", "runs before the first that is measured", &warmup_},
        {"--max-memory", 0, "SIZE", "refuse plans that need more: 800M, 16G (default: nine tenths of the machine's)",
         &maxMemory_},
        {"--stats", 0, "", "time by phase, tasks and memory", &stats_}};
    for (Option &o : training_.options()) s.options.push_back(std::move(o));
    s.details =
        "An output passes when |got - expected| <= atol + rtol * |expected| for each value. Defaults (rtol, atol): f64 "
        "1e-7, 1e-9; "
        "f32 1.3e-6, 1e-5; f16 1e-3, 1e-3; bf16 1.6e-2, 1e-2; integers and bool 0, 0. A mismatch gives exit code 1.\n"
        "NAME is what stands before the first '='. A dimension that the graph gives as -1 takes its value from the "
        "tensor that is fed.";
    s.minArguments = s.maxArguments = 1;
    return s;
  }

  int run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (Status s = readFlags(); !s) return invocation.fail(s);
    // Files that do not exist are found before a long compilation, not after it.
    Result<NamedValues> inputs = NamedValues::open(inputs_, inputArchive_, "--input");
    if (!inputs) return invocation.fail(inputs.status());
    if (training_.isRequested())
      return training_.run(invocation, {positional[0], &*inputs, values_, !seed_.empty(), compileOptions_, maxBytes_});
    Result<NamedValues> expected = NamedValues::open(expects_, expectArchive_, "--expect");
    if (!expected) return invocation.fail(expected.status());
    Result<GraphInput> input = readGraphInput(positional[0]);
    if (!input) return invocation.fail(input.status());
    Result<Registry> registry = invocation.loadRegistry();
    if (!registry) return invocation.fail(registry.status());

    int failure = kExitOk;
    const std::string plan = makePlan(invocation, *registry, *input, *inputs, failure);
    if (failure) return failure;
    SessionOptions options;
    options.threads = invocation.threads();
    options.seed = values_.seed;
    options.maxMemory = maxBytes_;
    Result<Session> session = Session::load(plan, *registry, options);
    if (!session) return invocation.fail(session.status());

    Result<OutputFiles> files =
        OutputFiles::plan(outputs_, outputArchive_, session->interface().outputs, positional[0]);
    if (!files) return invocation.fail(files.status());
    if (files->usesStdout() && invocation.flags().json)
      return invocation.fail(usageError("an output and the JSON both want standard output"));
    if (files->usesStdout()) printMode_.kind = PrintMode::Kind::kNone;
    std::vector<std::string> notes;
    Result<std::vector<Expectation>> expectations = readExpectations(*session, *expected, notes);
    if (!expectations) return invocation.fail(expectations.status());
    Result<ValueReport> given = giveValues(*session, *inputs, values_, invocation.commandLine());
    if (!given) return invocation.fail(given.status());
    notes.insert(notes.end(), given->notes.begin(), given->notes.end());
    if (Status s = session->prepare(); !s) return invocation.fail(s);

    Timing timing;
    if (Status s = execute(*session, timing); !s) return invocation.fail(s);
    std::vector<NamedOutput> results;
    for (const PortInfo &p : session->interface().outputs) {
      Result<HostTensor> t = session->fetch(p.name);
      if (!t) return invocation.fail(t.status());
      results.push_back({p.name, std::move(*t)});
    }
    if (Status s = files->write(results); !s) return invocation.fail(s);
    return report(invocation, *session, input->name, *given, results, *expectations, *files, timing, notes);
  }

private:
  Status readFlags() {
    OPC_RETURN_IF_ERROR(training_.readFlags());
    if (training_.isRequested() && (!outputs_.empty() || !outputArchive_.empty() || !expects_.empty() ||
                                    !expectArchive_.empty() || !repeat_.empty() || !warmup_.empty()))
      return usageError("--output, --expect, --repeat and --warmup do not go with --feed-dataset",
                        "train with --save ckpt.safetensors, then opc run GRAPH --weights ckpt.safetensors");
    Result<PrintMode> mode = parsePrintMode(print_);
    if (!mode) return mode.status();
    printMode_ = *mode;
    OPC_RETURN_IF_ERROR(rtolFlags_.parse(rtol_, "--rtol"));
    OPC_RETURN_IF_ERROR(atolFlags_.parse(atol_, "--atol"));
    if (nan_ != "equal" && nan_ != "fail") return usageError("--nan takes equal or fail, not '" + nan_ + "'");
    const std::string &fill = values_.fill;
    if (!fill.empty() && fill != "rand" && fill != "zeros" && fill != "ones" && fill != "iota")
      return usageError("--fill takes rand, zeros, ones or iota, not '" + fill + "'");
    if (!seed_.empty()) {
      const auto n = parseInteger<uint64_t>(seed_);
      if (!n) return usageError("--seed takes a whole number from 0 to 18446744073709551615, not '" + seed_ + "'");
      values_.seed = *n;
    }
    auto count = [](const std::string &text, const char *flag, int64_t least, int64_t *out) -> Status {
      if (text.empty()) return Status::ok();
      const auto n = parseInteger<int64_t>(text);
      if (!n || *n < least || *n > 1000000000)
        return usageError(std::string(flag) + " takes a number from " + std::to_string(least) +
                          " to 1000000000, not '" + text + "'");
      *out = *n;
      return Status::ok();
    };
    OPC_RETURN_IF_ERROR(count(repeat_, "--repeat", 1, &repeats_));
    OPC_RETURN_IF_ERROR(count(warmup_, "--warmup", 0, &warmups_));
    if (!maxMemory_.empty()) {
      const auto bytes = parseBytes(maxMemory_);
      if (!bytes || !*bytes)
        return usageError("--max-memory takes a size such as 800M or 16G, not '" + maxMemory_ + "'");
      maxBytes_ = *bytes;
    }
    Result<std::map<std::string, std::vector<int64_t>>> shapes = parseShapeFlags(shapes_);
    if (!shapes) return shapes.status();
    compileOptions_.shapes = *shapes;
    compileOptions_.fuse = !noFuse_;
    return Status::ok();
  }

  /// The plan's bytes; on error a failure code is left and reported.
  std::string makePlan(Invocation &invocation, const Registry &registry, GraphInput &input, const NamedValues &inputs,
                       int &failure) {
    if (input.isPlan) {
      if (!compileOptions_.shapes.empty())
        failure = invocation.fail(usageError("--shape has no effect on a plan: its shapes are fixed",
                                             "compile the graph again with --shape"));
      return std::move(input.bytes);
    }
    auto pipeline = std::make_unique<Pipeline>(registry, compileOptions_);
    auto failed = [&] {
      failure =
          invocation.fail(pipeline->diagnostics(), pipeline->errorCount(), pipeline->errorClass(), pipeline->source());
      return std::string();
    };
    if (!pipeline->import(input.name, input.bytes)) return failed();
    const GraphInfo info = pipeline->graph();
    // A wrong name or a missing value is a slip of the command line, whatever else the compiler would find.
    if (Status s = checkGraphInputs(info, inputs, compileOptions_.shapes, values_, invocation.commandLine()); !s)
      return failure = invocation.fail(s), std::string();
    if (hasOpenInputs(info)) {
      Result<std::map<std::string, std::vector<int64_t>>> shapes = shapesOfOpenInputs(info, inputs, values_.seed);
      if (!shapes) return failure = invocation.fail(shapes.status()), std::string();
      CompileOptions options = compileOptions_;
      for (const auto &s : *shapes) options.shapes.insert(s);
      if (options.shapes.size() != compileOptions_.shapes.size()) {
        pipeline = std::make_unique<Pipeline>(registry, options);
        if (!pipeline->import(input.name, input.bytes)) return failed();
      }
    }
    input.bytes.clear();
    if (!pipeline->run(Phase::kPlan)) return failed();
    invocation.showFindings(pipeline->diagnostics(), pipeline->source());
    phases_ = phasesJson(*pipeline);
    if (stats_ && !invocation.flags().json) invocation.terminal().err(phasesText(*pipeline));
    return pipeline->emit(Emit::kPlan);
  }

  Result<std::vector<Expectation>> readExpectations(const Session &session, const NamedValues &expected,
                                                    std::vector<std::string> &notes) const {
    std::vector<std::string> names;
    for (const PortInfo &p : session.interface().outputs) names.push_back(p.name);
    for (const std::string &name : expected.flagNames())
      if (std::find(names.begin(), names.end(), name) == names.end())
        return noSuchName("output", name, names, "--expect " + name + "=" + expected.origin(name));
    for (const ToleranceFlags *flags : {&rtolFlags_, &atolFlags_})
      for (const auto &named : flags->named())
        if (std::find(names.begin(), names.end(), named.first) == names.end())
          return noSuchName("output", named.first, names, flags == &rtolFlags_ ? "--rtol" : "--atol");
    for (const std::string &key : expected.archiveKeys())
      if (std::find(names.begin(), names.end(), key) == names.end())
        notes.push_back(expected.archivePath() + ": no output of the graph is called " + key + "; skipped");
    std::vector<Expectation> list;
    for (const PortInfo &p : session.interface().outputs) {
      if (!expected.has(p.name)) {
        if (!expected.archivePath().empty())
          notes.push_back(expected.archivePath() + " has no " + p.name + "; that output is not compared");
        continue;
      }
      Result<HostTensor> tensor = expected.make({p.name, p.desc, values_.seed, values_.cast});
      if (!tensor) return Status(tensor.status()).withContext("reading what is expected of " + p.name);
      if (tensor->dtype() != p.desc.data_type()) {
        Status s = checkTensor(*tensor, user_op::TensorDesc(tensor->shape(), p.desc.data_type()),
                               "the expectation " + expected.origin(p.name) + " for " + p.name);
        return Status(s.code(), s.id(), s.message())
            .withHelp((s.help().empty() ? "" : s.help() + "; or ") + "let opc convert it: --cast");
      }
      list.push_back({p.name, expected.origin(p.name), std::move(*tensor)});
    }
    if (list.empty() && !expected.archivePath().empty())
      return Status(StatusCode::kUsage, "OPC0005", expected.archivePath() + " holds none of the graph's outputs");
    return list;
  }

  Status execute(Session &session, Timing &timing) const {
    if (warmups_ > 0) OPC_RETURN_IF_ERROR(session.run(warmups_));
    for (int64_t i = 0; i < repeats_; ++i) {
      const auto start = std::chrono::steady_clock::now();
      OPC_RETURN_IF_ERROR(session.run());
      timing.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(timing.seconds.begin(), timing.seconds.end());
    return Status::ok();
  }

  int report(Invocation &invocation, const Session &session, const std::string &graph, const ValueReport &given,
             const std::vector<NamedOutput> &results, const std::vector<Expectation> &expectations,
             const OutputFiles &files, const Timing &timing, const std::vector<std::string> &notes) {
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
        if (o.name == e.name) passed &= compare(invocation, o, e, compared);

    const SessionStats stats = session.stats();
    if (!json) {
      if (repeats_ > 1)
        invocation.note(countText(static_cast<uint64_t>(repeats_)) + " runs: median " + secondsText(timing.median()) +
                        ", fastest " + secondsText(timing.seconds.front()) + ", slowest " +
                        secondsText(timing.seconds.back()));
      if (stats_)
        terminal.err(countText(stats.tasks) + " tasks on " + std::to_string(stats.streams) +
                     (stats.streams == 1 ? " stream, " : " streams, ") + bytesText(stats.arenaBytes) + " of memory, " +
                     bytesText(stats.constantBytes) + " of constants and variables, " + secondsText(timing.median()) +
                     " a run\n");
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
    }
    document["timing"] = {{"runs", repeats_},
                          {"median_s", timing.median()},
                          {"min_s", timing.seconds.front()},
                          {"max_s", timing.seconds.back()}};
    if (stats_)
      document["stats"] = {{"tasks", stats.tasks},
                           {"streams", stats.streams},
                           {"arena_bytes", stats.arenaBytes},
                           {"constant_bytes", stats.constantBytes},
                           {"phases", phases_}};
    terminal.out(jsonText(document));
    return passed ? kExitOk : kExitNo;
  }

  /// Compares one output and says what came of it.
  bool compare(Invocation &invocation, const NamedOutput &output, const Expectation &expected, Json &list) const {
    const Tolerance standard = defaultTolerance(output.tensor.dtype());
    const Tolerance tolerance{rtolFlags_.of(output.name, standard.rtol), atolFlags_.of(output.name, standard.atol)};
    Json entry = {
        {"name", output.name}, {"expected", expected.origin}, {"rtol", tolerance.rtol}, {"atol", tolerance.atol}};
    if (output.tensor.shape() != expected.tensor.shape()) {
      const std::string text = output.name + ": the shape differs: got " +
                               typeText(output.tensor.dtype(), output.tensor.shape()) + ", expected " +
                               typeText(expected.tensor.dtype(), expected.tensor.shape());
      invocation.terminal().err(text + "\n");
      entry["passed"] = false;
      entry["reason"] = "shape";
      list.push_back(std::move(entry));
      return false;
    }
    const Comparison c = compareTensors(output.tensor, expected.tensor, tolerance, nan_ == "equal");
    entry["passed"] = c.passed();
    entry["values"] = c.count;
    entry["mismatches"] = c.mismatches;
    entry["max_abs"] = realJson(c.maxAbs);
    entry["max_rel"] = realJson(c.maxRel);
    if (!c.passed()) {
      entry["worst"] = {{"index", Json::parse(indexText(output.tensor.shape(), c.worst))},
                        {"got", elementText(output.tensor, c.worst)},
                        {"expected", elementText(expected.tensor, c.worst)}};
      entry["passing_rtol"] = c.passingRtol ? Json(*c.passingRtol) : Json(nullptr);
      entry["passing_atol"] = c.passingAtol ? Json(*c.passingAtol) : Json(nullptr);
      invocation.terminal().err(mismatchText(output.name, output.tensor, expected.tensor, c, tolerance));
    } else {
      invocation.note(output.name + ": all " + countText(static_cast<uint64_t>(c.count)) +
                      " values as expected (rtol " + realText(tolerance.rtol) + ", atol " + realText(tolerance.atol) +
                      "; largest difference " + roundedText(c.maxAbs, 3) + ")");
    }
    list.push_back(std::move(entry));
    return c.passed();
  }

  std::vector<std::string> inputs_, outputs_, expects_, rtol_, atol_, shapes_;
  std::string inputArchive_, outputArchive_, expectArchive_, print_ = "summary", nan_ = "fail", seed_, repeat_, warmup_,
                                                             maxMemory_;
  uint64_t maxBytes_ = 0;
  ValueFlags values_;
  TrainingRun training_;
  bool stats_ = false, noFuse_ = false;
  PrintMode printMode_;
  ToleranceFlags rtolFlags_, atolFlags_;
  CompileOptions compileOptions_;
  Json phases_ = Json::array();
  int64_t repeats_ = 1, warmups_ = 0;
};

} // namespace

std::unique_ptr<Command> makeRunCommand() { return std::make_unique<RunCommand>(); }

} // namespace opc::cli
