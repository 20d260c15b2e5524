// What a training run leaves behind.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingRecord.h"

#include "FileBytes.h"
#include "NamedValues.h"
#include "NumberText.h"
#include "OutputFiles.h"

#include <algorithm>
#include <cmath>

namespace opc::cli {

Status checkTogether(const TrainingOptions &o) {
  if (o.epochs && o.steps) return usageError("--epochs and --steps both say when to stop: give one");
  if (o.saveEvery && o.save.empty()) return usageError("--save-every goes with --save FILE");
  if (o.otherGraph && o.resume.empty()) return usageError("--other-graph goes with --resume FILE");
  if (o.keep && !o.saveEvery) return usageError("--keep goes with --save FILE --save-every N");
  if (o.best && o.save.empty()) return usageError("--keep-best goes with --save FILE");
  if (o.patience && !o.best) return usageError("--patience goes with --keep-best METRIC");
  if (o.metricsEvery && o.metrics.empty()) return usageError("--metrics-every goes with --metrics FILE");
  return Status::ok();
}

Status checkTrainingFiles(const TrainingOptions &o, const std::string &graph) {
  OPC_RETURN_IF_ERROR(checkEnding("--save", o.save, {".safetensors", ".st"}));
  OPC_RETURN_IF_ERROR(checkEnding("--plot", o.plot, {".svg"}));
  for (const std::string &path : {o.save, o.metrics, o.plot}) {
    if (path.empty()) continue;
    if (path == "-") return usageError("a training run writes to files, not to the standard output");
    OPC_RETURN_IF_ERROR(checkOutputPath(path, graph));
  }
  return !o.save.empty() && o.best ? checkOutputPath(pathBeside(o.save, "best"), graph) : Status::ok();
}

Result<std::vector<FileLock>> lockTrainingFiles(const TrainingOptions &o) {
  std::vector<FileLock> locks;
  const auto lock = [&locks](const std::string &path, bool isShared) -> Status {
    OPC_ASSIGN_OR_RETURN(FileLock taken, FileLock::take(path, isShared));
    locks.push_back(std::move(taken));
    return Status::ok();
  };
  // Of checkpoints with numbers one lock is for all numbers; who writes a single one shares it.
  const auto all = [](const std::string &path) { return pathBeside(path, "stepN"); };
  for (const TrainingFile &f : trainingFiles(o)) {
    OPC_RETURN_IF_ERROR(lock(f.isNumbered ? all(f.path) : f.path, false));
    if (const std::string path = unnumbered(f.path); !path.empty()) OPC_RETURN_IF_ERROR(lock(all(path), true));
  }
  return locks;
}

std::string valuesText(const StepMetrics &m, bool onlyNonFinite) {
  std::string text;
  for (const auto &[name, value] : m.values)
    if (!onlyNonFinite || !std::isfinite(value))
      text += (text.empty() ? "" : "  ") + name + " " + roundedText(value, 4);
  return text;
}

std::map<std::string, std::string> runNotes(int64_t batch, int64_t examples, bool shuffle) {
  return {{"batch", std::to_string(batch)},
          {"examples", std::to_string(examples)},
          {"shuffle", shuffle ? "true" : "false"}};
}

TrainingRecord::TrainingRecord(const TrainingOptions &options, Session &session, Run run, Say warn, Say note)
    : o_(options), run_(std::move(run)), warn_(std::move(warn)), note_(std::move(note)),
      keeper_(o_, session, run_.writes, [this](const std::string &text) { warn_(text); }) {
  if (o_.best) best_.emplace(*o_.best);
}

void TrainingRecord::restore(const std::map<std::string, std::string> &notes) {
  if (best_) best_->restore(notes);
}

Status TrainingRecord::checkBest(const std::vector<std::string> &names) const {
  if (!best_ || std::find(names.begin(), names.end(), best_->metric().name) != names.end()) return Status::ok();
  return noSuchName("output of one element", best_->metric().name, names, "--keep-best " + best_->metric().name);
}

Status TrainingRecord::open(int64_t first) {
  last_.step = first;
  if (!o_.metrics.empty() && run_.writes) OPC_RETURN_IF_ERROR(metrics_.open(o_.metrics, first, &history_));
  return keeper_.open(first);
}

Status TrainingRecord::add(const StepMetrics &metrics, size_t validated) {
  last_ = metrics;
  const bool isValidated = validated > 0;
  const int64_t odd = stopsOn(metrics.values.size() - validated);
  writeMetrics(isValidated);
  if (const std::string values = warned_ ? "" : oddValues(); !values.empty()) {
    warned_ = true;
    note_(values + " at step " + std::to_string(last_.step));
  }
  const bool isSaved = o_.saveEvery && last_.step % o_.saveEvery == 0;
  // Without validation the number is looked at where a checkpoint is made, or at the end of an epoch.
  if (best_ && (run_.validates ? isValidated : o_.saveEvery ? isSaved : last_.step % run_.stepsPerEpoch == 0))
    OPC_RETURN_IF_ERROR(lookAtBest());
  if (odd) ending_ = odd;
  return isSaved ? keeper_.save(state(), oddValues()) : Status::ok();
}

/// What the graph gives is looked at; a validation is no reason.
int64_t TrainingRecord::stopsOn(size_t own) const {
  const bool isOdd =
      std::any_of(last_.values.begin(), last_.values.begin() + static_cast<std::ptrdiff_t>(own), [this](const auto &v) {
        return (o_.stopOn.nan && std::isnan(v.second)) || (o_.stopOn.inf && std::isinf(v.second));
      });
  return isOdd ? kNonFinite : kGoesOn;
}

/// A full disk ends no run: the lines wait.
void TrainingRecord::writeMetrics(bool isAsked) {
  if (!o_.plot.empty()) history_.push_back(last_);
  if (!metrics_.isOpen()) return;
  if (isAsked || last_.step % o_.metricsEvery.value_or(1) == 0) sayMetrics(metrics_.write(last_));
  if (o_.saveEvery && last_.step % o_.saveEvery == 0) sayMetrics(metrics_.flush());
}

void TrainingRecord::sayMetrics(const Status &s) {
  if (!s && !metricsFail_)
    warn_(s.message() + "; the run goes on, and the lines will be tried again");
  else if (s && metricsFail_)
    warn_(o_.metrics + " is written again");
  metricsFail_ = !s.isOk();
}

Status TrainingRecord::lookAtBest() {
  for (const auto &[name, value] : last_.values)
    if (name == best_->metric().name && best_->look(value, last_.step)) return keeper_.saveBest(state());
  if (o_.patience && best_->since() >= o_.patience) ending_ = kPatience;
  return Status::ok();
}

TrainingState TrainingRecord::state() const {
  TrainingState state{last_.step, last_.step / run_.stepsPerEpoch, run_.seed, run_.notes};
  if (best_) state.notes.merge(best_->notes());
  return state;
}

Status TrainingRecord::finish() {
  Status first = keeper_.finish(state(), oddValues());
  const auto keep = [&](Status s) {
    if (!s && !first)
      warn_(s.message());
    else if (!s)
      first = std::move(s);
  };
  if (metrics_.isOpen()) keep(metrics_.flush());
  if (!o_.plot.empty() && run_.writes) keep(writeFileAtomically(o_.plot, metricsSvg(run_.title, history_)));
  if (ending_ == kNonFinite && first)
    first = Status(StatusCode::kExecution, "OPC0621", oddValues() + " at step " + std::to_string(last_.step))
                .withHelp("--trap nan,inf finds the op that makes the first such value");
  return first;
}

} // namespace opc::cli
