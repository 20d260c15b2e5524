// Training from the command line.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingRun.h"

#include "BatchLoader.h"
#include "Checkpoint.h"
#include "JsonOutput.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "TextParts.h"
#include "TrainingLog.h"
#include "TrainingProgress.h"

#include "opc/Dispatch.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>

namespace opc::cli {
namespace {

volatile std::sig_atomic_t caughtSignal = 0;

/// The first SIGINT or SIGTERM asks the run to stop after the step; a second one ends the program at once.
class SignalWatch {
public:
  SignalWatch() {
    caughtSignal = 0;
    struct sigaction action{};
    action.sa_handler = [](int number) { caughtSignal = number; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~SignalWatch() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  int caught() const { return caughtSignal; }

private:
  struct sigaction interrupt_{}, terminate_{};
};

/// The element types of numbers to watch.
using Watched = types::Of<float, double, int32_t, int64_t>;

/// The outputs of one element: losses and other numbers to watch.
class ScalarOutputs {
public:
  explicit ScalarOutputs(const Session &session) {
    for (const PortInfo &p : session.interface().outputs) {
      if (p.desc.shape().elem_cnt() == 1 && contains<Watched>(p.desc.data_type())) outputs_.push_back(p);
    }
  }
  StepMetrics read(const Session &session, int64_t step, int64_t epoch) const {
    StepMetrics m{step, epoch, {}};
    for (const PortInfo &p : outputs_)
      if (const void *data = session.outputData(p.name))
        visit<Watched>(p.desc.data_type(), [&](auto tag) {
          m.values.push_back({p.name, static_cast<double>(*static_cast<const typename decltype(tag)::type *>(data))});
        });
    return m;
  }

private:
  std::vector<PortInfo> outputs_;
};

/// "loss 0.123  accuracy 0.9".
std::string valuesText(const StepMetrics &m, bool onlyNonFinite = false) {
  std::string text;
  for (const auto &[name, value] : m.values)
    if (!onlyNonFinite || !std::isfinite(value))
      text += (text.empty() ? "" : "  ") + name + " " + roundedText(value, 4);
  return text;
}

/// Whether two paths name one file, which need not exist.
bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  const auto left = std::filesystem::weakly_canonical(a, error), right = std::filesystem::weakly_canonical(b, error);
  return a == b || (!error && left == right);
}

/// The settings that make one run what it is: two runs that differ in one of them are not the same.
std::map<std::string, std::string> runNotes(const BatchOrder &order, bool shuffle) {
  return {{"batch", std::to_string(order.batch())},
          {"examples", std::to_string(order.examples())},
          {"shuffle", shuffle ? "true" : "false"}};
}

Status checkSameRun(const std::string &path, const TrainingState &state,
                    const std::map<std::string, std::string> &mine) {
  for (const auto &[key, value] : mine) {
    auto it = state.notes.find(key);
    if (it == state.notes.end() || it->second == value) continue;
    return Status(StatusCode::kUsage, "OPC0712",
                  path + " is of a run with " + key + " " + it->second + ", this one has " + key + " " + value)
        .withHelp("use the same data and flags, or start a new run from its values with --weights " + path);
  }
  return Status::ok();
}

/// The seed of the run that a checkpoint is of; nothing for a file that is not a checkpoint, which loading reports.
Result<std::optional<uint64_t>> seedOf(const std::string &path) {
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<TensorArchive> archive, openTensorArchive(path));
  const auto &metadata = archive->metadata();
  auto it = metadata.find("seed");
  return it == metadata.end() ? std::nullopt : parseInteger<uint64_t>(it->second);
}

/// Paths first: nothing is worse than a run whose result cannot be written.
Status checkFiles(const RunOptions &o) {
  std::vector<std::string> taken; // files of this run: none may be written over by another
  for (const DataSet &d : o.training.dataSets) taken.push_back(d.file);
  for (const std::string &path : {o.training.save, o.training.metrics, o.training.plot}) {
    if (path.empty()) continue;
    if (path == "-") return usageError("a training run writes to files, not to the standard output");
    OPC_RETURN_IF_ERROR(checkOutputPath(path, o.graph));
    for (const std::string &other : taken)
      if (isSameFile(path, other))
        return Status(StatusCode::kUsage, "OPC0002", "the output " + path + " is another file of this run");
    taken.push_back(path);
  }
  return Status::ok();
}

/// A run that goes on has the seed of the run that it continues.
Status adoptSeed(RunOptions &o) {
  const std::string &path = o.training.resume;
  if (path.empty()) return Status::ok();
  OPC_ASSIGN_OR_RETURN(const std::optional<uint64_t> seed, seedOf(path));
  if (o.values.seed && seed && *seed != *o.values.seed)
    return Status(StatusCode::kUsage, "OPC0712",
                  path + " is of a run with seed " + std::to_string(*seed) + ", this one has seed " +
                      std::to_string(*o.values.seed))
        .withHelp("leave out --seed");
  if (seed) o.values.seed = seed;
  return Status::ok();
}

Outcome<PlannedRun> planTraining(RunContext &c) {
  RunOptions &o = c.options;
  PlannedRun planned;
  OPC_ASSIGN_OR_RETURN(planned.inputs, o.values.open());
  OPC_RETURN_IF_ERROR(checkFiles(o));
  OPC_RETURN_IF_ERROR(adoptSeed(o));
  OPC_ASSIGN_OR_RETURN(planned.input, readGraphInput(o.graph));
  OPC_ASSIGN_OR_RETURN(Registry registry, c.invocation.loadRegistry());
  planned.registry = std::make_unique<Registry>(std::move(registry));
  planned.planner = std::make_unique<RunPlanner>(c.invocation, o, *planned.registry, nullptr);
  OPC_ASSIGN_OR_RETURN(const std::string plan, planned.planner->planTraining(planned.input, planned.inputs));
  OPC_ASSIGN_OR_RETURN(planned.session, Session::load(plan, *planned.registry, o.session(c.invocation)));
  return planned;
}

/// A data set in the element type of its input, cast when that was asked for.
Result<MappedTensor> openDataSet(const DataSet &d, DataType wanted, bool cast) {
  Result<MappedTensor> data = MappedTensor::open(d.file, wanted);
  if (!data) return Status(data.status()).withContext("reading the data set of input " + d.input);
  if (data->desc().data_type() == wanted) return data;
  if (!cast)
    return Status(StatusCode::kUsage, "OPC0703",
                  "the data set " + d.file + " is " + dataTypeName(data->desc().data_type()) + ", input '" + d.input +
                      "' is " + dataTypeName(wanted))
        .withHelp("let opc convert it: --cast");
  OPC_ASSIGN_OR_RETURN(const HostTensor host, data->toHost());
  Result<HostTensor> converted = castTensor(host, wanted);
  if (!converted) return Status(converted.status()).withContext("converting the data set of input " + d.input);
  return MappedTensor(std::move(*converted));
}

Result<BatchLoader> openData(RunContext &c, const Session &session) {
  std::vector<BatchLoader::Source> sources;
  const std::vector<std::string> names = namesOf(session.interface().inputs);
  for (const DataSet &d : c.options.training.dataSets) {
    const auto it = std::find(names.begin(), names.end(), d.input);
    if (it == names.end()) return noSuchName("input", d.input, names, "--feed-dataset " + d.input + "=@" + d.file);
    const PortInfo &port = session.interface().inputs[static_cast<size_t>(it - names.begin())];
    OPC_ASSIGN_OR_RETURN(MappedTensor data, openDataSet(d, port.desc.data_type(), c.options.values.cast));
    sources.push_back({d.input, std::move(data)});
  }
  OPC_ASSIGN_OR_RETURN(BatchLoader loader, BatchLoader::create(session, std::move(sources), c.options.training.shuffle,
                                                               c.options.values.seed.value_or(0)));
  if (const int64_t rest = loader.order().leftOver())
    c.invocation.note("note: " + std::to_string(rest) + " of " + std::to_string(loader.order().examples()) +
                      " examples do not fill a batch and are left out of each epoch");
  return loader;
}

/// The steps of one run.
class Trainer {
public:
  Trainer(RunContext &context, PlannedRun &planned, BatchLoader loader)
      : c_(context), o_(context.options.training), planned_(planned), session_(*planned.session),
        loader_(std::move(loader)), notes_(runNotes(loader_.order(), o_.shuffle)), scalars_(session_) {
    const int64_t perEpoch = loader_.order().stepsPerEpoch();
    total_ = o_.steps ? o_.steps : o_.epochs * perEpoch;
  }

  Status start() {
    if (!o_.resume.empty()) {
      OPC_ASSIGN_OR_RETURN(const TrainingState state, loadCheckpoint(o_.resume, session_));
      OPC_RETURN_IF_ERROR(checkSameRun(o_.resume, state, notes_));
      first_ = state.step;
      c_.options.values.weights.clear(); // the checkpoint has every variable
    }
    OPC_RETURN_IF_ERROR(giveRest());
    OPC_RETURN_IF_ERROR(session_.prepare());
    if (!o_.metrics.empty() && writes()) OPC_RETURN_IF_ERROR(metrics_.open(o_.metrics, first_, &history_));
    if (first_ >= total_)
      c_.invocation.note("note: " + o_.resume + " has " + std::to_string(first_) + " steps already, of " +
                         std::to_string(total_));
    if (!o_.save.empty() && writes()) removeAbandonedTemporaries(o_.save);
    step_ = first_;
    return Status::ok();
  }

  /// All steps, or those until a signal comes.
  Status run() {
    SignalWatch signals;
    TrainingProgress progress(c_.invocation, first_, total_);
    const int64_t perEpoch = loader_.order().stepsPerEpoch(), epochs = (total_ + perEpoch - 1) / perEpoch;
    auto steps = [&]() -> Status {
      for (;;) {
        // On any rank: all of them end after the same step.
        OPC_ASSIGN_OR_RETURN(const int64_t signal, session_.agree(signals.caught()));
        caught_ = static_cast<int>(signal);
        if (caught_ || step_ >= total_) return Status::ok();
        OPC_RETURN_IF_ERROR(step(progress));
        if (progress.isDue()) progress.show(last_, epochs, valuesText(last_));
      }
    };
    const Status status = steps();
    progress.clear();
    seconds_ = progress.seconds();
    return status;
  }

  Status finish() {
    if (!o_.save.empty() && savedAt_ != step_) OPC_RETURN_IF_ERROR(save());
    if (metrics_.isOpen()) OPC_RETURN_IF_ERROR(metrics_.flush());
    if (!o_.plot.empty() && writes())
      OPC_RETURN_IF_ERROR(writeFileAtomically(o_.plot, metricsSvg(planned_.input.name, history_)));
    return Status::ok();
  }

  int report() const {
    if (c_.invocation.flags().json)
      c_.invocation.terminal().out(jsonText(document()));
    else
      c_.invocation.terminal().out(text());
    if (!c_.invocation.flags().json && !o_.save.empty()) c_.invocation.note("saved " + o_.save);
    return caught_ ? 128 + caught_ : kExitOk;
  }

private:
  bool writes() const { return c_.options.ranks.isFirst(); }

  /// The inputs that no data set feeds, and the variables unless a checkpoint has given them.
  Status giveRest() {
    std::set<std::string> fed;
    for (const DataSet &d : o_.dataSets) fed.insert(d.input);
    if (!o_.resume.empty())
      for (const VariableInfo &v : session_.interface().variables) fed.insert(v.name);
    OPC_ASSIGN_OR_RETURN(const ValueReport given,
                         giveValues(session_, planned_.inputs, c_.options.values, c_.invocation.commandLine(), fed));
    for (const std::string &n : given.notes) c_.invocation.note("note: " + n);
    return Status::ok();
  }

  Status step(TrainingProgress &progress) {
    OPC_RETURN_IF_ERROR(loader_.feed(session_, step_));
    if (Status s = session_.run(); !s) return std::move(s).withContext("step " + std::to_string(step_ + 1));
    const int64_t epoch = step_ / loader_.order().stepsPerEpoch() + 1;
    ++step_;
    last_ = scalars_.read(session_, step_, epoch);
    if (metrics_.isOpen() && step_ % o_.metricsEvery.value_or(1) == 0) OPC_RETURN_IF_ERROR(metrics_.write(last_));
    if (!o_.plot.empty()) history_.push_back(last_);
    if (const std::string odd = warned_ ? "" : valuesText(last_, true); !odd.empty()) {
      warned_ = true;
      progress.clear();
      c_.invocation.note("note: " + odd + " at step " + std::to_string(step_));
    }
    return o_.saveEvery && step_ % o_.saveEvery == 0 ? save() : Status::ok();
  }

  Status save() {
    if (metrics_.isOpen()) OPC_RETURN_IF_ERROR(metrics_.flush());
    const TrainingState state{step_, step_ / loader_.order().stepsPerEpoch(), c_.options.values.seed.value_or(0),
                              notes_};
    savedAt_ = step_;
    return saveCheckpoint(o_.save, session_, state);
  }

  Json document() const {
    Json outputs = Json::object();
    for (const auto &[name, value] : last_.values) outputs[name] = realJson(value);
    const BatchOrder &order = loader_.order();
    return {{"schema", 1},
            {"graph", planned_.input.name},
            {"steps", step_},
            {"first_step", first_},
            {"epochs", step_ / order.stepsPerEpoch()},
            {"examples", order.examples()},
            {"batch", order.batch()},
            {"seconds", seconds_},
            {"outputs", std::move(outputs)},
            {"interrupted", caught_ != 0},
            {"saved", o_.save.empty() ? Json(nullptr) : Json(o_.save)}};
  }

  std::string text() const {
    const double rate = seconds_ > 0 ? static_cast<double>(step_ - first_) / seconds_ : 0;
    std::string text =
        (caught_ ? "stopped at step " : "step ") + std::to_string(step_) + " of " + std::to_string(total_);
    for (const auto &[name, value] : last_.values) text += "  " + name + " " + roundedText(value, 5);
    return text + "  (" + secondsText(seconds_) + ", " + roundedText(rate, 3) + " steps/s)\n";
  }

  RunContext &c_;
  const TrainingOptions &o_;
  PlannedRun &planned_;
  Session &session_;
  BatchLoader loader_;
  const std::map<std::string, std::string> notes_;
  const ScalarOutputs scalars_;
  std::vector<StepMetrics> history_;
  MetricsFile metrics_;
  StepMetrics last_;
  int64_t first_ = 0, total_ = 0, step_ = 0, savedAt_ = -1;
  double seconds_ = 0;
  int caught_ = 0;
  bool warned_ = false;
};

} // namespace

Outcome<int> train(RunContext &context) {
  OPC_ASSIGN_OR_RETURN(PlannedRun planned, planTraining(context));
  OPC_ASSIGN_OR_RETURN(BatchLoader loader, openData(context, *planned.session));
  Trainer trainer(context, planned, std::move(loader));
  OPC_RETURN_IF_ERROR(trainer.start());
  OPC_RETURN_IF_ERROR(trainer.run());
  OPC_RETURN_IF_ERROR(trainer.finish());
  return trainer.report();
}

} // namespace opc::cli
