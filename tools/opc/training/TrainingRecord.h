// What a training run leaves behind, step by step: lines of metrics, checkpoints, the best of them, curves. The command
// and the Python package train with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BestSoFar.h"
#include "CheckpointKeeper.h"
#include "FileLock.h"
#include "TrainingLog.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// Why a run ends before its last step: the number of a signal, or one of these. The largest of all ranks counts.
enum Ending : int64_t { kGoesOn = 0, kPatience = 1000, kNonFinite = 1001 };

/// What goes with what, in the options' words: OPC0001.
Status checkTogether(const TrainingOptions &options);
/// Endings and folders of what is written, and that no two are one file. `graph` is read. Errors: OPC0002, OPC0707.
Status checkTrainingFiles(const TrainingOptions &options, const std::string &graph);
/// Two runs that write one file would take turns in it. Errors: OPC0718.
Result<std::vector<FileLock>> lockTrainingFiles(const TrainingOptions &options);

/// "loss 0.123  accuracy 0.9".
std::string valuesText(const StepMetrics &metrics, bool onlyNonFinite = false);
/// The settings that make one run what it is: two runs that differ in one of them are not the same.
std::map<std::string, std::string> runNotes(int64_t batch, int64_t examples, bool shuffle);

class TrainingRecord {
public:
  struct Run {
    std::map<std::string, std::string> notes; // of its checkpoints
    uint64_t seed = 0;
    int64_t stepsPerEpoch = 1;
    std::string title;  // of the curves
    bool writes = true; // whether this process writes files
    bool validates = false;
  };
  /// `warn` says what goes wrong without ending the run, `note` what is worth knowing.
  using Say = std::function<void(const std::string &)>;
  TrainingRecord(const TrainingOptions &options, Session &session, Run run, Say warn, Say note);

  /// What a checkpoint says of the run that goes on.
  void restore(const std::map<std::string, std::string> &notes);
  void addNote(const std::string &key, std::string value) { run_.notes[key] = std::move(value); }
  const std::map<std::string, std::string> &notes() const { return run_.notes; }
  /// --keep-best names something that is measured. Errors: OPC0005.
  Status checkBest(const std::vector<std::string> &names) const;
  /// Opens the files, after step `first`.
  Status open(int64_t first);

  /// A step that was made; the last `validated` of its values are of a validation after it. Writes what is due; then
  /// `ending` says whether to go on.
  Status add(const StepMetrics &metrics, size_t validated);
  int64_t ending() const { return ending_; }
  /// What all ranks have agreed on.
  void end(int64_t ending) { ending_ = ending; }
  /// The lines so far, for a run that has failed.
  void flush() { (void)metrics_.flush(); }
  /// Writes what there is to write; one file that cannot be written takes no other with it. Errors: those of writing,
  /// and OPC0621 when the state is not finite.
  Status finish();

  const StepMetrics &last() const { return last_; }
  const std::optional<BestSoFar> &best() const { return best_; }
  const CheckpointKeeper &keeper() const { return keeper_; }

private:
  int64_t stopsOn(size_t own) const;
  void writeMetrics(bool isAsked);
  void sayMetrics(const Status &status);
  Status lookAtBest();
  TrainingState state() const;
  std::string oddValues() const { return valuesText(last_, true); }

  const TrainingOptions &o_;
  Run run_;
  const Say warn_, note_;
  std::optional<BestSoFar> best_;
  CheckpointKeeper keeper_;
  std::vector<StepMetrics> history_;
  MetricsFile metrics_;
  StepMetrics last_;
  int64_t ending_ = kGoesOn;
  bool warned_ = false, metricsFail_ = false;
};

} // namespace opc::cli
