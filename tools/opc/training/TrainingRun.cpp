// Training from the command line.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingRun.h"

#include "AllowTf32.h"
#include "DataSets.h"
#include "FreedMemory.h"
#include "GraphDigest.h"
#include "JsonOutput.h"
#include "KernelStates.h"
#include "LearningCheck.h"
#include "ModelValues.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "PrintableText.h"
#include "RunIdentity.h"
#include "RunTrap.h"
#include "ScalarOutputs.h"
#include "StopSignal.h"
#include "TextParts.h"
#include "TrainingProgress.h"
#include "TrainingRecord.h"
#include "ValidationGraph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace opc::cli {
namespace {

/// The seed of the run that a checkpoint is of; nothing for a file that is not a checkpoint, which loading reports.
Result<std::optional<uint64_t>> seedOf(const std::string &path) {
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<TensorArchive> archive, openTensorArchive(path));
  const auto &metadata = archive->metadata();
  auto it = metadata.find("seed");
  return it == metadata.end() ? std::nullopt : parseInteger<uint64_t>(it->second);
}

/// Paths first: nothing is worse than a run whose result cannot be written.
Status checkFiles(const RunContext &c) {
  const TrainingOptions &o = c.options.training;
  OPC_RETURN_IF_ERROR(checkTrainingFiles(o, c.options.graph));
  FileUse files = c.options.filesRead(c.invocation);
  for (const TrainingFile &f : trainingFiles(o))
    OPC_RETURN_IF_ERROR(f.isNumbered ? files.writesNumbered(f.path, f.option) : files.writes(f.path, f.option));
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

/// The slip of everybody's first day: a graph without the ops that train it. Without --save it may be meant: outputs
/// over a data set.
Status checkLearns(RunContext &c, const std::string &graph, bool isPlan) {
  const std::string message = graph + " trains nothing: no op of it writes a variable";
  const std::string help = isPlan
                               ? "compile the plan from a training graph: opc grad GRAPH --loss LOSS --optimizer adam "
                                 "--lr 0.001 -o step.pbtxt"
                               : "make the training graph first: opc grad " + graph +
                                     " --loss LOSS --optimizer adam --lr 0.001 -o step.pbtxt, then run step.pbtxt";
  if (!c.options.training.save.empty()) return usageError(message, help);
  if (c.options.ranks.isFirst()) c.invocation.warn(message, help);
  return Status::ok();
}

/// `digest` receives what the graph is known by, where a checkpoint is to say it, or says it.
Outcome<PlannedRun> planTraining(RunContext &c, bool *learns, std::optional<std::string> *digest) {
  RunOptions &o = c.options;
  PlannedRun planned;
  OPC_ASSIGN_OR_RETURN(planned.inputs, o.values.open());
  OPC_RETURN_IF_ERROR(adoptSeed(o));
  OPC_ASSIGN_OR_RETURN(planned.input, readGraphInput(o.graph));
  OPC_RETURN_IF_ERROR(o.checkDeviceOf(c.invocation, planned.input));
  if (!planned.input.isPlan && (!o.training.save.empty() || !o.training.resume.empty()))
    *digest = graphDigest(planned.input.bytes.text());
  OPC_ASSIGN_OR_RETURN(Registry registry, c.invocation.loadRegistry(o.graph));
  planned.registry = std::make_unique<Registry>(std::move(registry));
  planned.planner = std::make_unique<RunPlanner>(c.invocation, o, *planned.registry, nullptr);
  OPC_ASSIGN_OR_RETURN(const std::string plan, planned.planner->planBatches(planned.input, planned.inputs,
                                                                            o.training.dataSets, {o.training.batch}));
  *learns = writesVariables(plan, *planned.registry);
  if (!*learns) OPC_RETURN_IF_ERROR(checkLearns(c, planned.input.name, planned.input.isPlan));
  giveBackFreed();
  const AllowTf32 products(o.allowTf32);
  OPC_ASSIGN_OR_RETURN(planned.session, Session::load(plan, *planned.registry, o.session(c.invocation)));
  const bool isContinued = !o.training.resume.empty();
  if (const std::string states = statesOfKernels(plan, *planned.registry);
      !states.empty() && (isContinued || !o.training.save.empty())) {
    if (isContinued)
      c.invocation.warn(states);
    else
      c.invocation.note("note: " + states);
  }
  return planned;
}

/// `contents` receives what the data sets hold where a checkpoint is to say it, or says it.
Result<BatchLoader> openData(RunContext &c, const Session &session, std::map<std::string, std::string> *contents) {
  const TrainingOptions &o = c.options.training;
  OPC_ASSIGN_OR_RETURN(std::vector<BatchLoader::Source> sources,
                       openDataSets(o.dataSets, session, "--feed-dataset", c.options.values.cast));
  if (!o.save.empty() || !o.resume.empty())
    for (const BatchLoader::Source &s : sources)
      (*contents)[contentKey(s.input)] = contentOf(s.data.desc(), s.data.data());
  OPC_ASSIGN_OR_RETURN(BatchLoader loader,
                       BatchLoader::create(session, std::move(sources), o.shuffle, c.options.values.seed.value_or(0)));
  if (const int64_t rest = loader.order().leftOver())
    c.invocation.note("note: " + std::to_string(rest) + " of " + std::to_string(loader.order().examples()) +
                      " examples do not fill a batch and are left out of each epoch");
  return loader;
}

/// The steps of one run.
class Trainer {
public:
  Trainer(RunContext &context, PlannedRun &planned, BatchLoader loader, std::map<std::string, std::string> contents,
          std::unique_ptr<Validation> validation)
      : c_(context), o_(context.options.training), planned_(planned), session_(*planned.session),
        loader_(std::move(loader)), scalars_(session_),
        trap_(context.options.trap,
              {context.options.graph, context.invocation.flags().plugins, context.invocation.flags().opPaths}),
        validation_(std::move(validation)),
        record_(
            o_, session_, recordOf(std::move(contents)), [this](const std::string &text) { warn(text); },
            [this](const std::string &text) { note(text); }) {
    if (o_.steps)
      total_ = o_.steps;
    else if (__builtin_mul_overflow(o_.epochs, loader_.order().stepsPerEpoch(), &total_))
      total_ = std::numeric_limits<int64_t>::max(); // for ever
  }

  /// Values for the inputs and variables; of a run that goes on, those of the checkpoint.
  Status begin() {
    OPC_RETURN_IF_ERROR(o_.resume.empty() ? giveRest() : resume());
    step_ = first_;
    return checkBest();
  }

  /// Whether a checkpoint has all the steps already. Then nothing is written.
  bool isDone() const { return first_ >= total_; }
  int reportDone() const {
    Invocation &invocation = c_.invocation;
    if (invocation.flags().json)
      invocation.terminal().out(jsonText(document()));
    else
      invocation.terminal().out("nothing to do: " + o_.resume + " is of step " + countText(first_) + ", " +
                                (o_.steps
                                     ? "--steps " + std::to_string(o_.steps)
                                     : "--epochs " + std::to_string(o_.epochs) + ", " + countText(total_, "step")) +
                                ", counted from the beginning\n");
    return kExitOk;
  }

  /// Opens the files of the run.
  Status start(bool learns) {
    giveBackFreed();
    OPC_RETURN_IF_ERROR(session_.prepare());
    giveBackCode();
    if (c_.options.trap.any()) session_.observe(&trap_);
    if (learns && o_.save.empty())
      c_.invocation.note("note: without --save FILE what is learnt is gone when the run ends");
    return record_.open(first_);
  }

  /// All steps, or those until something ends the run.
  Status run(std::optional<StopSignal> &signals) {
    signals->begin();
    TrainingProgress progress(c_.invocation, first_, total_);
    progress_ = &progress;
    const int64_t perEpoch = loader_.order().stepsPerEpoch();
    const int64_t epochs = total_ / perEpoch + (total_ % perEpoch > 0);
    auto steps = [&]() -> Status {
      for (;;) {
        // On any rank: all of them end after the same step.
        const int64_t mine = record_.ending() ? record_.ending() : StopSignal::caught();
        OPC_ASSIGN_OR_RETURN(ending_, session_.agree(mine));
        record_.end(ending_);
        if (ending_ || step_ >= total_) return Status::ok();
        OPC_RETURN_IF_ERROR(step());
        if (progress.isDue()) progress.show(record_.last(), epochs, valuesText(record_.last()));
      }
    };
    Status status = steps();
    progress.clear();
    progress_ = nullptr;
    seconds_ = progress.seconds();
    signals.reset();
    if (status) return status;
    session_.observe(nullptr);
    record_.flush();
    status = trap_.withCase(session_, status);
    if (o_.save.empty() || !writes()) return status;
    return Status(status.code(), status.id(), status.message())
        .withHelp(status.help() + (status.help().empty() ? "" : "; ") + record_.keeper().left())
        .withContext(status.context());
  }

  Status finish() { return record_.finish(); }

  /// For people it comes before the reason of a failure; a document says one thing.
  int report(bool isFailed) const {
    Invocation &invocation = c_.invocation;
    if (!invocation.flags().json)
      invocation.terminal().out(text());
    else if (!isFailed)
      invocation.terminal().out(jsonText(document()));
    if (!invocation.flags().json && !isFailed && !o_.save.empty()) invocation.note("saved " + printableName(o_.save));
    return isSignal() ? 128 + static_cast<int>(ending_) : kExitOk;
  }

private:
  bool writes() const { return c_.options.ranks.isFirst(); }
  bool isSignal() const { return ending_ > 0 && ending_ < kPatience; }

  TrainingRecord::Run recordOf(std::map<std::string, std::string> contents) const {
    const BatchOrder &order = loader_.order();
    contents.merge(runNotes(order.batch(), order.examples(), o_.shuffle));
    return {
        std::move(contents),   c_.options.values.seed.value_or(0), order.stepsPerEpoch(), planned_.input.name, writes(),
        validation_ != nullptr};
  }

  void note(const std::string &text) {
    if (progress_) progress_->clear();
    c_.invocation.note("note: " + text);
  }
  /// What goes wrong without ending the run; -q does not silence it.
  void warn(const std::string &text) {
    if (progress_) progress_->clear();
    c_.invocation.warn(text);
  }

  Status resume() {
    OPC_ASSIGN_OR_RETURN(const TrainingState state, loadCheckpoint(o_.resume, session_));
    first_ = state.step;
    OPC_RETURN_IF_ERROR(giveRest());
    std::map<std::string, std::string> mine = record_.notes();
    if (o_.otherGraph) mine.erase(kGraphKey);
    OPC_RETURN_IF_ERROR(checkSameRun(o_.resume, state.notes, mine));
    if (record_.notes().count(kGraphKey) != state.notes.count(kGraphKey))
      c_.invocation.note("note: " + (planned_.input.isPlan ? planned_.input.name + " is a plan and" : o_.resume) +
                         " does not say what its graph computed; it is taken to be the same");
    const bool isSaid =
        std::any_of(state.notes.begin(), state.notes.end(), [](const auto &n) { return isContentKey(n.first); });
    if (!isSaid)
      c_.invocation.note("note: " + o_.resume + " does not say what its data held; it is taken to be the same");
    record_.restore(state.notes);
    return Status::ok();
  }

  /// Values that are given twice: one of them would be ignored.
  Status checkGivenOnce(const std::set<std::string> &fed) const {
    std::set<std::string> variables;
    if (!o_.resume.empty())
      for (const PortInfo &v : session_.interface().variables) variables.insert(v.name);
    for (const std::string &name : planned_.inputs.flagNames()) {
      const std::string flag = "--input " + name + "=" + planned_.inputs.origin(name);
      if (fed.count(name))
        return usageError("--feed-dataset feeds input '" + name + "', and " + flag + " gives it a value, too",
                          "leave out one of them");
      if (variables.count(name))
        return usageError("--resume " + o_.resume + " has variable '" + name + "', and " + flag + " gives it, too",
                          "leave out --input; or begin a new run with --weights " + o_.resume);
    }
    // An archive may hold more than this run wants.
    for (const std::string &key : planned_.inputs.archiveKeys())
      if (fed.count(key) || variables.count(key))
        c_.invocation.note("note: " + planned_.inputs.archivePath() + ": " + key + " is given by " +
                           (fed.count(key) ? "--feed-dataset" : "--resume " + o_.resume) + "; skipped");
    return Status::ok();
  }

  /// The variables of a model begin with its values.
  Status giveOwn(std::set<std::string> *given) {
    OPC_ASSIGN_OR_RETURN(const std::set<std::string> own, giveModelValues(session_, planned_.planner->modelValues(),
                                                                          planned_.inputs, c_.options.values));
    given->insert(own.begin(), own.end());
    return Status::ok();
  }

  /// The inputs that no data set feeds, and the variables unless a checkpoint has given them.
  Status giveRest() {
    std::set<std::string> fed;
    for (const DataSet &d : o_.dataSets) fed.insert(d.input);
    OPC_RETURN_IF_ERROR(checkGivenOnce(fed));
    std::set<std::string> given = fed;
    if (!o_.resume.empty())
      for (const PortInfo &v : session_.interface().variables) given.insert(v.name);
    else
      OPC_RETURN_IF_ERROR(giveOwn(&given));
    OPC_ASSIGN_OR_RETURN(const ValueReport report,
                         giveValues(session_, planned_.inputs, c_.options.values, c_.invocation.commandLine(), given));
    for (const std::string &n : report.notes) c_.invocation.note("note: " + n);
    // Pieces on several ranks are cut anew where somebody asks for the whole.
    if (session_.ranks() == 1)
      for (const PortInfo &p : session_.interface().inputs) {
        if (fed.count(p.name)) continue;
        OPC_ASSIGN_OR_RETURN(const void *data, session_.inputMemory(p.name));
        record_.addNote(contentKey(p.name), contentOf(p.desc, data));
      }
    return Status::ok();
  }

  /// --keep-best names something that is measured.
  Status checkBest() const {
    std::vector<std::string> names = scalars_.names();
    std::transform(names.begin(), names.end(), names.begin(), metricName);
    if (validation_)
      for (const std::string &n : validation_->names()) names.push_back(n);
    return record_.checkBest(names);
  }

  Status step() {
    OPC_RETURN_IF_ERROR(loader_.feed(session_, step_));
    if (Status s = session_.run(); !s) return std::move(s).withContext("step " + std::to_string(step_ + 1));
    const int64_t perEpoch = loader_.order().stepsPerEpoch();
    Result<std::vector<std::pair<std::string, double>>> values = scalars_.read(session_);
    if (!values) return Status(values.status()).withContext("step " + std::to_string(step_ + 1));
    StepMetrics made{step_ + 1, step_ / perEpoch + 1, std::move(*values)};
    for (auto &[name, value] : made.values) name = metricName(name);
    const size_t own = made.values.size();
    ++step_;
    if (validation_ && step_ % (o_.validateEvery ? o_.validateEvery : perEpoch) == 0)
      OPC_RETURN_IF_ERROR(validation_->run(session_, &made));
    return record_.add(made, made.values.size() - own);
  }

  Json document() const {
    Json outputs = Json::object();
    for (const auto &[name, value] : record_.last().values) outputs[name] = realJson(value);
    const BatchOrder &order = loader_.order();
    Json document = {{"schema", 1},
                     {"graph", planned_.input.name},
                     {"steps", step_},
                     {"first_step", first_},
                     {"epochs", step_ / order.stepsPerEpoch()},
                     {"examples", order.examples()},
                     {"batch", order.batch()},
                     {"seconds", seconds_},
                     {"outputs", std::move(outputs)},
                     {"interrupted", isSignal()},
                     {"saved", o_.save.empty() || isDone() ? Json(nullptr) : Json(o_.save)}};
    if (const auto &best = record_.best()) {
      document["best"] = {{"metric", best->metric().name},
                          {"value", best->step() < 0 ? Json(nullptr) : realJson(best->value())},
                          {"step", best->step() < 0 ? Json(nullptr) : Json(best->step())}};
      document["out_of_patience"] = ending_ == kPatience;
    }
    return document;
  }

  std::string text() const {
    const double rate = seconds_ > 0 ? static_cast<double>(step_ - first_) / seconds_ : 0;
    std::string text =
        (ending_ ? "stopped at step " : "step ") + std::to_string(step_) + " of " + std::to_string(total_);
    for (const auto &[name, value] : record_.last().values) text += "  " + name + " " + roundedText(value, 5);
    text += "  (" + secondsText(seconds_) + ", " + roundedText(rate, 3) + " steps/s)\n";
    if (const auto &best = record_.best(); best && best->step() >= 0)
      text += "best " + best->metric().name + " " + roundedText(best->value(), 5) + " at step " +
              std::to_string(best->step()) + record_.keeper().bestPlace() + "\n";
    return text;
  }

  RunContext &c_;
  const TrainingOptions &o_;
  PlannedRun &planned_;
  Session &session_;
  BatchLoader loader_;
  const ScalarOutputs scalars_;
  RunTrap trap_;
  std::unique_ptr<Validation> validation_;
  TrainingRecord record_;
  TrainingProgress *progress_ = nullptr; // while steps are made
  int64_t first_ = 0, total_ = 0, step_ = 0, ending_ = kGoesOn;
  double seconds_ = 0;
};

} // namespace

Outcome<int> train(RunContext &context) {
  std::optional<StopSignal> signals(
      std::in_place, true, context.options.ranks.isFirst() ? "stopped before the first step; nothing is saved\n" : "");
  std::vector<FileLock> locks;
  OPC_RETURN_IF_ERROR(checkFiles(context));
  if (context.options.ranks.isFirst()) {
    OPC_ASSIGN_OR_RETURN(locks, lockTrainingFiles(context.options.training));
  }
  bool learns = true;
  std::optional<std::string> digest;
  OPC_ASSIGN_OR_RETURN(PlannedRun planned, planTraining(context, &learns, &digest));
  std::map<std::string, std::string> contents; // notes of the checkpoints: of the data, and of the graph
  if (digest) contents[kGraphKey] = *digest;
  OPC_ASSIGN_OR_RETURN(BatchLoader loader, openData(context, *planned.session, &contents));
  std::unique_ptr<Validation> validation;
  if (context.options.training.validates()) {
    OPC_ASSIGN_OR_RETURN(validation,
                         openValidation(context, *planned.registry, *planned.session, loader.order().batch()));
  }
  Trainer trainer(context, planned, std::move(loader), std::move(contents), std::move(validation));
  OPC_RETURN_IF_ERROR(trainer.begin());
  if (trainer.isDone()) return trainer.reportDone();
  OPC_RETURN_IF_ERROR(trainer.start(learns));
  OPC_RETURN_IF_ERROR(trainer.run(signals));
  const Status ended = trainer.finish();
  const int code = trainer.report(!ended);
  if (!ended) return ended;
  return code;
}

} // namespace opc::cli
