// The checkpoints of a training run: which file gets which, what stays, and what happens when one cannot be written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Checkpoint.h"
#include "TrainingOptions.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// "ckpt.best.safetensors" of "ckpt.safetensors" and "best".
std::string pathBeside(const std::string &path, const std::string &word);

/// A file that training may write, and the option that says so.
struct TrainingFile {
  std::string path, option;
  bool isNumbered = false; // `path` with the number of a step before its ending, for every number
};
/// Those of --save, --keep, --keep-best, --metrics and --plot.
std::vector<TrainingFile> trainingFiles(const TrainingOptions &options);
/// "ckpt.st" of "ckpt.step7.st"; empty for a name without such a number.
std::string unnumbered(const std::string &path);

/// Writes to --save FILE, and beside it what --keep and --keep-best ask for. FILE is never replaced by a state that is
/// not finite: that goes to FILE.nonfinite. Every call is one of the whole job.
class CheckpointKeeper {
public:
  /// `writes`: whether this process writes files. `warn` says what goes wrong without ending the run.
  CheckpointKeeper(const TrainingOptions &options, Session &session, bool writes,
                   std::function<void(const std::string &)> warn)
      : o_(options), session_(session), writes_(writes), warn_(std::move(warn)) {}

  /// Before the first step. Sweeps what killed runs have left. A run that goes on from step `first` > 0 also goes on
  /// with the numbered checkpoints up to there. What is not finite now is meant: a mask of infinities.
  Status open(int64_t first);
  /// The checkpoint of --save-every. `odd` says what is not finite: "loss nan". A file that cannot be written is a
  /// warning, and is tried again with the next one. Errors: those of taking it.
  Status save(const TrainingState &state, const std::string &odd);
  /// The checkpoint of --keep-best, in the same way.
  Status saveBest(const TrainingState &state);
  /// The last one, unless it is written already. Errors: OPC0707, and OPC0621 when the state is not finite.
  Status finish(const TrainingState &state, const std::string &odd);
  /// " in ckpt.best.safetensors", or that it is not there.
  std::string bestPlace() const;
  /// "ckpt.safetensors is of step 40"; what a run leaves that fails.
  std::string left() const;

private:
  struct Written {
    Status status;
    std::string odd; // why FILE stays as it is
  };
  Result<Written> write(const TrainingState &state, std::string odd);
  /// A variable that was finite and is not any more: "variable w is not finite"; else empty.
  std::string oddVariable(const Checkpoint &checkpoint) const;
  void findNumbered(int64_t first);
  void keepNumbered(const Checkpoint &checkpoint, int64_t step);
  Status tryOnceMore() const;
  Status writeBest();
  void say(const Status &failure);

  const TrainingOptions &o_;
  Session &session_;
  const bool writes_;
  const std::function<void(const std::string &)> warn_;
  std::vector<std::string> meant_;     // variables that were not finite from the start
  std::set<int64_t> kept_;             // steps of numbered checkpoints
  int64_t savedAt_ = -1, doneAt_ = -1; // the steps of FILE, and of the last state that was written at all
  std::string odd_;                    // of that state
  std::optional<Checkpoint> best_;     // that could not be written yet
  std::string bestOdd_;                // why the best state has no file
  bool failing_ = false, isOddSaid_ = false;
};

} // namespace opc::cli
