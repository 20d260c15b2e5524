// Training from the command line.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingRun.h"

#include "BatchLoader.h"
#include "Checkpoint.h"
#include "GraphValues.h"
#include "JsonOutput.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "TrainingLog.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <optional>
#include <set>
#include <unistd.h>

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

/// "x=@a.npy,y=@b.npy": commas part inputs only where another NAME=@ follows, since file names may hold them.
Result<std::vector<std::pair<std::string, std::string>>> parseDataSets(const std::vector<std::string> &flags) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const std::string &flag : flags) {
    size_t begin = 0;
    while (begin <= flag.size()) {
      size_t end = begin;
      for (;;) {
        end = flag.find(',', end);
        if (end == std::string::npos) break;
        const size_t equals = flag.find("=@", end), comma = flag.find(',', end + 1);
        if (equals != std::string::npos && (comma == std::string::npos || equals < comma)) break;
        ++end;
      }
      const std::string part = flag.substr(begin, end == std::string::npos ? end : end - begin);
      const size_t equals = part.find("=@");
      if (equals == 0 || equals == std::string::npos || equals + 2 == part.size())
        return Status(StatusCode::kUsage, "OPC0003", "--feed-dataset takes NAME=@FILE, not '" + part + "'")
            .withHelp("--feed-dataset x=@images.npy,y=@labels.npy");
      const std::string name = part.substr(0, equals);
      for (const auto &known : list)
        if (known.first == name)
          return Status(StatusCode::kUsage, "OPC0003", "--feed-dataset is given twice for '" + name + "'");
      list.push_back({name, part.substr(equals + 2)});
      if (end == std::string::npos) break;
      begin = end + 1;
    }
  }
  return list;
}

double scalarAt(const void *data, DataType type) {
  switch (type) {
  case kFloat: return static_cast<double>(*static_cast<const float *>(data));
  case kDouble: return *static_cast<const double *>(data);
  case kInt32: return *static_cast<const int32_t *>(data);
  case kInt64: return static_cast<double>(*static_cast<const int64_t *>(data));
  default: return std::nan("");
  }
}

/// The outputs of one element, and which of them is the loss.
class ScalarOutputs {
public:
  explicit ScalarOutputs(const Session &session) {
    for (const PortInfo &p : session.interface().outputs) {
      const DataType t = p.desc.data_type();
      if (p.desc.shape().elem_cnt() == 1 && (t == kFloat || t == kDouble || t == kInt32 || t == kInt64))
        outputs_.push_back(p);
    }
    for (size_t i = outputs_.size(); i-- > 0;)
      if (outputs_[i].name.find("loss") != std::string::npos || outputs_[i].name.find("Loss") != std::string::npos)
        loss_ = i;
  }
  StepMetrics read(const Session &session, int64_t step, int64_t epoch) const {
    StepMetrics m{step, epoch, {}};
    for (const PortInfo &p : outputs_)
      if (const void *data = session.outputData(p.name))
        m.values.push_back({p.name, scalarAt(data, p.desc.data_type())});
    return m;
  }
  /// "loss 0.123", or nothing when no output has one element.
  std::string lossText(const StepMetrics &m) const {
    return m.values.size() <= loss_ ? "" : m.values[loss_].first + " " + roundedText(m.values[loss_].second, 4);
  }
  bool lossIsFinite(const StepMetrics &m) const {
    return m.values.size() <= loss_ || std::isfinite(m.values[loss_].second);
  }

private:
  std::vector<PortInfo> outputs_;
  size_t loss_ = 0;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Whether two paths name one file, which need not exist.
bool isSameFile(const std::string &a, const std::string &b) {
  std::error_code error;
  const auto left = std::filesystem::weakly_canonical(a, error), right = std::filesystem::weakly_canonical(b, error);
  return a == b || (!error && left == right);
}

/// "40 s", "3 min 20 s", "4 h 21 min".
std::string durationText(double seconds) {
  if (seconds < 60) return secondsText(seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
}

/// How far the run is, on standard error: a line that is rewritten ten times a second on a terminal, a new one every
/// ten seconds elsewhere and with --progress plain, a JSON object a second with --progress json.
class ProgressLine {
public:
  ProgressLine(Invocation &invocation, int64_t first, int64_t total)
      : invocation_(invocation), mode_(parseProgress(invocation.flags().progress, isatty(STDERR_FILENO) != 0)),
        first_(first), total_(total), start_(now()), shown_(start_) {
    if (mode_ == ProgressMode::kNone && invocation.flags().progress == "auto") mode_ = ProgressMode::kPlain;
    if (invocation.flags().quiet) mode_ = ProgressMode::kNone;
    invocation.progress().clear();
  }
  bool isDue() const {
    if (mode_ == ProgressMode::kNone) return false;
    return now() - shown_ >= (mode_ == ProgressMode::kLine ? 0.1 : mode_ == ProgressMode::kJson ? 1.0 : 10.0);
  }
  void show(const StepMetrics &last, int64_t epochs, const std::string &loss) {
    shown_ = now();
    const double rate = static_cast<double>(last.step - first_) / std::max(shown_ - start_, 1e-9);
    const double left = static_cast<double>(total_ - last.step) / std::max(rate, 1e-9);
    if (mode_ == ProgressMode::kJson) {
      Json line = {{"step", last.step}, {"steps", total_}, {"epoch", last.epoch}, {"epochs", epochs}};
      for (const auto &[name, value] : last.values) line[name] = realJson(value);
      line["steps_per_s"] = rate;
      line["seconds_left"] = left;
      return invocation_.terminal().err(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    }
    std::string text = "epoch " + std::to_string(last.epoch) + "/" + std::to_string(epochs) + "  step " +
                       std::to_string(last.step) + "/" + std::to_string(total_) + (loss.empty() ? "" : "  " + loss) +
                       "  " + roundedText(rate, 3) + " steps/s  " + durationText(left) + " left";
    if (mode_ == ProgressMode::kPlain) return invocation_.terminal().err(text + "\n");
    const size_t width = static_cast<size_t>(invocation_.terminal().width()) - 1;
    if (text.size() > width) text.resize(width);
    invocation_.terminal().err("\r\x1b[K" + text);
    visible_ = true;
  }
  /// Takes the line away, so that other text can follow.
  void clear() {
    if (visible_) invocation_.terminal().err("\r\x1b[K");
    visible_ = false;
  }
  double seconds() const { return now() - start_; }

private:
  Invocation &invocation_;
  ProgressMode mode_;
  bool visible_ = false;
  int64_t first_, total_;
  double start_, shown_;
};

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

/// Whether the graph holds backward ops. They carry shapes of the forward graph in their attributes (the share of a
/// mean is 1 / n), so that another batch would train, and wrongly. Text and binary graphs spell the name alike.
bool isDifferentiated(const std::string &graph) { return graph.find("backward_pass") != std::string::npos; }

/// "64,28,28": the shape with another first dimension.
std::string shapeText(int64_t batch, const Shape &shape) {
  std::string text = std::to_string(batch);
  for (int64_t d = 1; d < shape.NumAxes(); ++d) text += "," + std::to_string(shape.At(d));
  return text;
}

/// The seed of the run that a checkpoint is of; nothing for a file that is not a checkpoint, which loading reports.
Result<std::optional<uint64_t>> seedOf(const std::string &path) {
  Result<std::unique_ptr<TensorArchive>> archive = openTensorArchive(path);
  if (!archive) return archive.status();
  const auto &metadata = (*archive)->metadata();
  auto it = metadata.find("seed");
  return it == metadata.end() ? std::nullopt : parseInteger<uint64_t>(it->second);
}

} // namespace

std::vector<Option> TrainingRun::options() {
  auto count = [](const char *name, const char *doc, OptionTarget to) {
    return Option{name, 0, "N", doc, to}.range(1, 1099511627776); // 2^40
  };
  return {{"--feed-dataset", 0, "NAME=@FILE,...",
           "train: feed inputs batch by batch along the first axis of a file (repeatable): x=@images.npy,y=@labels.npy",
           &dataSets_},
          count("--batch", "examples a step; the graph's first dimensions if not given", &batch_),
          {"--shuffle", 0, "", "another order of the examples in each epoch, by the seed", &shuffle_},
          count("--epochs", "how often to go through the data set (default 1)", &epochs_),
          count("--steps", "how many steps to make, in place of --epochs", &steps_),
          {"--metrics", 0, "FILE", "write the outputs of one element of every step as a line of JSON", &metrics_},
          count("--metrics-every", "a line every N steps only", &metricsEvery_),
          {"--save", 0, "FILE", "write all variables as a checkpoint (safetensors) at the end", &save_},
          count("--save-every", "and every N steps", &saveEvery_),
          {"--resume", 0, "FILE", "go on from a checkpoint, exactly as if the run had not been stopped", &resume_},
          {"--plot", 0, "FILE", "draw the outputs of one element over the steps, as SVG", &plot_}};
}

Status TrainingRun::readFlags() {
  if (!isRequested()) {
    const std::pair<bool, const char *> given[] = {
        {batch_ > 0, "--batch"},    {shuffle_, "--shuffle"},          {epochs_ > 0, "--epochs"},
        {steps_ > 0, "--steps"},    {!metrics_.empty(), "--metrics"}, {metricsEvery_.has_value(), "--metrics-every"},
        {!save_.empty(), "--save"}, {saveEvery_ > 0, "--save-every"}, {!resume_.empty(), "--resume"},
        {!plot_.empty(), "--plot"}};
    for (const auto &[is, flag] : given)
      if (is)
        return usageError(std::string(flag) + " goes with --feed-dataset",
                          "--feed-dataset x=@images.npy,y=@labels.npy");
    return Status::ok();
  }
  if (epochs_ && steps_) return usageError("--epochs and --steps both say when to stop: give one");
  if (!epochs_ && !steps_) epochs_ = 1;
  if (saveEvery_ && save_.empty()) return usageError("--save-every goes with --save FILE");
  if (metricsEvery_ && metrics_.empty()) return usageError("--metrics-every goes with --metrics FILE");
  Result<std::vector<std::pair<std::string, std::string>>> files = parseDataSets(dataSets_);
  if (!files) return files.status();
  files_ = std::move(*files);
  return Status::ok();
}

namespace {

/// Everything of one run between the flags and the steps.
class Trainer {
public:
  Trainer(Invocation &invocation, TrainingRun::Setup &setup) : invocation_(invocation), setup_(setup) {}

  /// Opens the data sets in the element types of the graph's inputs, and compiles. False: reported, code_ says how.
  bool prepare(const std::vector<std::pair<std::string, std::string>> &files, int64_t batch) {
    Result<GraphInput> input = readGraphInput(setup_.graph);
    if (!input) return fail(input.status());
    graphName_ = input->name;
    if (!take(invocation_.loadRegistry(), &registry_)) return false;
    std::string plan;
    if (input->isPlan) {
      if (batch) return fail(usageError("--batch has no effect on a plan: its shapes are fixed"));
      plan = std::move(input->bytes);
    } else if (!compile(*input, files, batch, &plan)) {
      return false;
    }
    SessionOptions options = setup_.session;
    options.seed = setup_.values.seed;
    return take(Session::load(plan, *registry_, options), &session_);
  }

  /// Opens the sources, each cast to its input's dtype when that was asked for.
  bool openData(const std::vector<std::pair<std::string, std::string>> &files, bool shuffle) {
    std::vector<BatchLoader::Source> sources;
    std::vector<std::string> names;
    for (const PortInfo &p : session_->interface().inputs) names.push_back(p.name);
    for (const auto &[name, file] : files) {
      const auto it = std::find(names.begin(), names.end(), name);
      if (it == names.end()) return fail(noSuchName("input", name, names, "--feed-dataset " + name + "=@" + file));
      const DataType wanted = session_->interface().inputs[static_cast<size_t>(it - names.begin())].desc.data_type();
      Result<MappedTensor> data = MappedTensor::open(file, wanted);
      if (!data) return fail(Status(data.status()).withContext("reading the data set of input " + name));
      if (data->desc().data_type() != wanted) {
        if (!setup_.values.cast)
          return fail(Status(StatusCode::kUsage, "OPC0703",
                             "the data set " + file + " is " + dataTypeName(data->desc().data_type()) + ", input '" +
                                 name + "' is " + dataTypeName(wanted))
                          .withHelp("let opc convert it: --cast"));
        Result<HostTensor> host = data->toHost();
        if (!host) return fail(host.status());
        Result<HostTensor> cast = castTensor(*host, wanted);
        if (!cast) return fail(Status(cast.status()).withContext("converting the data set of input " + name));
        data = MappedTensor(std::move(*cast));
      }
      sources.push_back({name, std::move(*data)});
    }
    if (!take(BatchLoader::create(*session_, std::move(sources), shuffle, setup_.values.seed), &loader_)) return false;
    if (int64_t rest = loader_->order().leftOver())
      invocation_.note("note: " + std::to_string(rest) + " of " + std::to_string(loader_->order().examples()) +
                       " examples do not fill a batch and are left out of each epoch");
    return true;
  }

  /// The inputs that no data set feeds, and the variables unless a checkpoint has given them.
  bool giveRest(const std::vector<std::pair<std::string, std::string>> &files, bool isResumed) {
    std::set<std::string> fed;
    for (const auto &f : files) fed.insert(f.first);
    if (isResumed)
      for (const VariableInfo &v : session_->interface().variables) fed.insert(v.name);
    Result<ValueReport> given = giveValues(*session_, *setup_.inputs, setup_.values, invocation_.commandLine(), fed);
    if (!given) return fail(given.status());
    for (const std::string &n : given->notes) invocation_.note("note: " + n);
    return true;
  }

  bool fail(const Status &status) {
    code_ = invocation_.fail(status);
    return false;
  }
  int code() const { return code_; }
  Session &session() { return *session_; }
  BatchLoader &loader() { return *loader_; }
  const std::string &graphName() const { return graphName_; }

private:
  template <class T> bool take(Result<T> made, std::optional<T> *into) {
    if (!made) return fail(made.status());
    into->emplace(*std::move(made));
    return true;
  }

  bool compile(GraphInput &input, const std::vector<std::pair<std::string, std::string>> &files, int64_t batch,
               std::string *plan) {
    auto pipeline = std::make_unique<Pipeline>(*registry_, setup_.compile);
    auto failed = [&] {
      code_ =
          invocation_.fail(pipeline->diagnostics(), pipeline->errorCount(), pipeline->errorClass(), pipeline->source());
      return false;
    };
    if (!pipeline->import(input.name, input.bytes)) return failed();
    const GraphInfo info = pipeline->graph();
    std::set<std::string> fed;
    std::vector<std::string> names;
    for (const GraphTensor &t : info.inputs) names.push_back(t.name);
    for (const auto &[name, file] : files) {
      if (std::find(names.begin(), names.end(), name) == names.end())
        return fail(noSuchName("input", name, names, "--feed-dataset " + name + "=@" + file));
      fed.insert(name);
    }
    if (Status s = checkGraphInputs(info, *setup_.inputs, setup_.compile.shapes, setup_.values,
                                    invocation_.commandLine(), &fed);
        !s)
      return fail(s);
    CompileOptions options = setup_.compile;
    for (const auto &[name, file] : files) {
      if (options.shapes.count(name)) continue;
      const GraphTensor *found =
          &info.inputs[static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
      Result<MappedTensor> data = MappedTensor::open(file, found->dtype);
      if (!data) return fail(Status(data.status()).withContext("reading the data set of input " + name));
      std::vector<int64_t> dims(data->desc().shape().begin(), data->desc().shape().end());
      if (dims.empty())
        return fail(Status(StatusCode::kUsage, "OPC0704", "the data set " + file + " has no axis of examples"));
      const bool isOpen = found->dtype == kInvalidDataType || found->shape.NumAxes() == 0 || found->shape.At(0) < 0;
      if (!batch && isOpen)
        return fail(usageError("the graph leaves the batch of input '" + name + "' open", "give one: --batch 64"));
      if (batch && !isOpen && found->shape.At(0) != batch && isDifferentiated(input.bytes))
        return fail(Status(StatusCode::kUsage, "OPC0713",
                           "the gradients of " + input.name + " are made for batches of " +
                               std::to_string(found->shape.At(0)) + " (input '" + name + "'), --batch is " +
                               std::to_string(batch))
                        .withHelp("make them for this batch: opc grad --shape " + name + "=" +
                                  shapeText(batch, data->desc().shape()) + " ..., or leave out --batch"));
      dims[0] = batch ? batch : found->shape.At(0);
      options.shapes[name] = dims;
    }
    pipeline = std::make_unique<Pipeline>(*registry_, options);
    if (!pipeline->import(input.name, input.bytes) || !pipeline->run(Phase::kPlan)) return failed();
    invocation_.showFindings(pipeline->diagnostics(), pipeline->source());
    *plan = pipeline->emit(Emit::kPlan);
    return true;
  }

  Invocation &invocation_;
  TrainingRun::Setup &setup_;
  std::string graphName_;
  std::optional<Registry> registry_;
  std::optional<Session> session_;
  std::optional<BatchLoader> loader_;
  int code_ = kExitOk;
};

} // namespace

int TrainingRun::run(Invocation &invocation, Setup setup) {
  // Paths first: nothing is worse than a run whose result cannot be written.
  std::vector<std::string> taken; // files of this run: none may be written over by another
  for (const auto &f : files_) taken.push_back(f.second);
  for (const std::string &path : {save_, metrics_, plot_}) {
    if (path.empty()) continue;
    Status s = path == "-" ? usageError("a training run writes to files, not to the standard output")
                           : checkOutputPath(path, setup.graph);
    for (const std::string &other : taken)
      if (s.isOk() && isSameFile(path, other))
        s = Status(StatusCode::kUsage, "OPC0002", "the output " + path + " is another file of this run");
    if (!s) return invocation.fail(s);
    taken.push_back(path);
  }
  if (!resume_.empty()) {
    Result<std::optional<uint64_t>> seed = seedOf(resume_);
    if (!seed) return invocation.fail(seed.status());
    if (setup.seedGiven && *seed && **seed != setup.values.seed)
      return invocation.fail(Status(StatusCode::kUsage, "OPC0712",
                                    resume_ + " is of a run with seed " + std::to_string(**seed) +
                                        ", this one has seed " + std::to_string(setup.values.seed))
                                 .withHelp("leave out --seed"));
    setup.values.seed = seed->value_or(setup.values.seed);
  }
  Trainer trainer(invocation, setup);
  if (!trainer.prepare(files_, batch_) || !trainer.openData(files_, shuffle_)) return trainer.code();
  Session &session = trainer.session();
  BatchLoader &loader = trainer.loader();
  const BatchOrder &order = loader.order();
  const std::map<std::string, std::string> notes = runNotes(order, shuffle_);

  int64_t first = 0;
  if (!resume_.empty()) {
    Result<TrainingState> state = loadCheckpoint(resume_, session);
    if (!state) return invocation.fail(state.status());
    if (Status s = checkSameRun(resume_, *state, notes); !s) return invocation.fail(s);
    first = state->step;
    setup.values.weights.clear(); // the checkpoint has every variable
  }
  if (!trainer.giveRest(files_, !resume_.empty())) return trainer.code();
  if (Status s = session.prepare(); !s) return invocation.fail(s);

  std::vector<StepMetrics> history;
  MetricsFile metrics;
  if (!metrics_.empty() && setup.writes)
    if (Status s = metrics.open(metrics_, first, &history); !s) return invocation.fail(s);
  const int64_t perEpoch = order.stepsPerEpoch(), total = steps_ ? steps_ : epochs_ * perEpoch;
  const int64_t epochs = (total + perEpoch - 1) / perEpoch;
  if (first >= total)
    invocation.note("note: " + resume_ + " has " + std::to_string(first) + " steps already, of " +
                    std::to_string(total));
  auto save = [&](int64_t step) -> Status {
    if (metrics.isOpen()) OPC_RETURN_IF_ERROR(metrics.flush());
    TrainingState state{step, step / perEpoch, setup.values.seed, notes};
    return saveCheckpoint(save_, session, state);
  };

  if (!save_.empty() && setup.writes) removeAbandonedTemporaries(save_);
  const ScalarOutputs scalars(session);
  SignalWatch signals;
  ProgressLine progress(invocation, first, total);
  StepMetrics last;
  bool warned = false;
  int64_t step = first, savedAt = -1;
  int caught = 0;
  auto stopWith = [&](const Status &s) {
    progress.clear();
    return invocation.fail(s);
  };
  for (;;) {
    Result<int64_t> signal = session.agree(signals.caught()); // on any rank: all of them end after the same step
    if (!signal) return stopWith(signal.status());
    caught = static_cast<int>(*signal);
    if (caught || step >= total) break;
    if (Status s = loader.feed(session, step); !s) return stopWith(s);
    if (Status s = session.run(); !s) return stopWith(std::move(s).withContext("step " + std::to_string(step + 1)));
    const int64_t epoch = step / perEpoch + 1;
    ++step;
    last = scalars.read(session, step, epoch);
    if (metrics.isOpen() && step % metricsEvery_.value_or(1) == 0)
      if (Status s = metrics.write(last); !s) return stopWith(s);
    if (!plot_.empty()) history.push_back(last);
    if (!warned && !scalars.lossIsFinite(last)) {
      warned = true;
      progress.clear();
      invocation.note("note: " + scalars.lossText(last) + " at step " + std::to_string(step));
    }
    if (saveEvery_ && step % saveEvery_ == 0) {
      if (Status s = save(step); !s) return stopWith(s);
      savedAt = step;
    }
    if (progress.isDue()) progress.show(last, epochs, scalars.lossText(last));
  }
  progress.clear();
  const double seconds = progress.seconds();
  if (!save_.empty() && savedAt != step)
    if (Status s = save(step); !s) return invocation.fail(s);
  if (metrics.isOpen())
    if (Status s = metrics.flush(); !s) return invocation.fail(s);
  if (!plot_.empty() && setup.writes)
    if (Status s = writeFileAtomically(plot_, metricsSvg(trainer.graphName(), history)); !s) return invocation.fail(s);

  const double rate = seconds > 0 ? static_cast<double>(step - first) / seconds : 0;
  if (invocation.flags().json) {
    Json outputs = Json::object();
    for (const auto &[name, value] : last.values) outputs[name] = realJson(value);
    invocation.terminal().out(jsonText({{"schema", 1},
                                        {"graph", trainer.graphName()},
                                        {"steps", step},
                                        {"first_step", first},
                                        {"epochs", step / perEpoch},
                                        {"examples", order.examples()},
                                        {"batch", order.batch()},
                                        {"seconds", seconds},
                                        {"outputs", std::move(outputs)},
                                        {"interrupted", caught != 0},
                                        {"saved", save_.empty() ? Json(nullptr) : Json(save_)}}));
  } else {
    std::string text = (caught ? "stopped at step " : "step ") + std::to_string(step) + " of " + std::to_string(total);
    for (const auto &[name, value] : last.values) text += "  " + name + " " + roundedText(value, 5);
    text += "  (" + secondsText(seconds) + ", " + roundedText(rate, 3) + " steps/s)";
    invocation.terminal().out(text + "\n");
    if (!save_.empty()) invocation.note("saved " + save_);
  }
  return caught ? 128 + caught : kExitOk;
}

} // namespace opc::cli
