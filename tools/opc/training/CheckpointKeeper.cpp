// The checkpoints of a training run.
// SPDX-License-Identifier: Apache-2.0
#include "CheckpointKeeper.h"

#include "NumberText.h"
#include "WriteFailure.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace opc::cli {

namespace fs = std::filesystem;

std::string pathBeside(const std::string &path, const std::string &word) {
  const fs::path p(path);
  return (p.parent_path() / (p.stem().string() + "." + word + p.extension().string())).string();
}

std::vector<TrainingFile> trainingFiles(const TrainingOptions &o) {
  std::vector<TrainingFile> files;
  if (!o.save.empty()) {
    files.push_back({o.save, "--save"});
    files.push_back({pathBeside(o.save, "nonfinite"), "--save"});
    if (o.best) files.push_back({pathBeside(o.save, "best"), "--save"});
    if (o.keep) files.push_back({o.save, "--save", true});
  }
  if (!o.metrics.empty()) files.push_back({o.metrics, "--metrics"});
  if (!o.plot.empty()) files.push_back({o.plot, "--plot"});
  return files;
}

std::string unnumbered(const std::string &path) {
  const fs::path p(path), stem = p.stem();
  constexpr std::string_view kStep = ".step";
  const std::string number = stem.extension().string();
  if (number.size() <= kStep.size() || number.rfind(kStep, 0) != 0 ||
      number.find_first_not_of("0123456789", kStep.size()) != std::string::npos)
    return "";
  return (p.parent_path() / (stem.stem().string() + p.extension().string())).string();
}

namespace {

std::string numbered(const std::string &path, int64_t step) { return pathBeside(path, "step" + std::to_string(step)); }

} // namespace

Status CheckpointKeeper::open(int64_t first) {
  if (o_.save.empty()) return Status::ok();
  if (writes_) OPC_RETURN_IF_ERROR(tryOnceMore());
  OPC_ASSIGN_OR_RETURN(const Checkpoint now, Checkpoint::take(session_, {}));
  meant_ = now.notFinite();
  if (!writes_) return Status::ok();
  removeAbandonedTemporaries(o_.save);
  if (o_.best) removeAbandonedTemporaries(pathBeside(o_.save, "best"));
  if (first > 0 && o_.keep) findNumbered(first);
  return Status::ok();
}

/// Everything that a run holds open is open by now: a limit that leaves no file for the checkpoint is found here, not
/// after the last step. Writing one may list its folder.
Status CheckpointKeeper::tryOnceMore() const {
  const int spare = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const Status status = spare < 0 ? cannotWrite("write", o_.save, errno) : tryWriting(o_.save);
  if (spare >= 0) ::close(spare);
  return status;
}

std::string CheckpointKeeper::oddVariable(const Checkpoint &checkpoint) const {
  for (const std::string &name : checkpoint.notFinite())
    if (std::find(meant_.begin(), meant_.end(), name) == meant_.end()) return "variable " + name + " is not finite";
  return "";
}

void CheckpointKeeper::findNumbered(int64_t first) {
  const fs::path file(o_.save);
  const std::string before = file.stem().string() + ".step", after = file.extension().string();
  std::error_code error;
  for (fs::directory_iterator it(file.has_parent_path() ? file.parent_path() : fs::path("."), error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.size() <= before.size() + after.size() || name.compare(0, before.size(), before) != 0) continue;
    const auto step = parseInteger<int64_t>(name.substr(before.size(), name.size() - before.size() - after.size()));
    if (step && *step <= first && fs::path(numbered(o_.save, *step)).filename() == name) kept_.insert(*step);
  }
}

void CheckpointKeeper::keepNumbered(const Checkpoint &checkpoint, int64_t step) {
  const std::string name = numbered(o_.save, step);
  ::unlink(name.c_str());
  // The same bytes under a second name; a copy where the file system knows no such names.
  if (::linkat(AT_FDCWD, o_.save.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
    if (Status s = checkpoint.write(name); !s) return warn_(s.message());
  kept_.insert(step);
  while (static_cast<int64_t>(kept_.size()) > o_.keep) {
    ::unlink(numbered(o_.save, *kept_.begin()).c_str());
    kept_.erase(kept_.begin());
  }
}

Result<CheckpointKeeper::Written> CheckpointKeeper::write(const TrainingState &state, std::string odd) {
  Result<Checkpoint> checkpoint = Checkpoint::take(session_, state);
  if (!checkpoint) return Status(checkpoint.status()).withContext("saving " + o_.save);
  if (odd.empty()) odd = oddVariable(*checkpoint);
  const std::string path = odd.empty() ? o_.save : pathBeside(o_.save, "nonfinite");
  const Status status = writes_ ? checkpoint->write(path) : Status::ok();
  if (status) {
    doneAt_ = state.step;
    odd_ = odd;
    if (odd.empty()) savedAt_ = state.step;
    if (odd.empty() && writes_ && o_.keep) keepNumbered(*checkpoint, state.step);
  }
  return Written{status, odd};
}

void CheckpointKeeper::say(const Status &failure) {
  if (!failure && !failing_)
    warn_(failure.message() + "; the run goes on, and the checkpoint will be tried again");
  else if (failure && failing_)
    warn_(o_.save + " is written again");
  failing_ = !failure.isOk();
}

Status CheckpointKeeper::save(const TrainingState &state, const std::string &odd) {
  OPC_ASSIGN_OR_RETURN(const Written written, write(state, odd));
  say(written.status);
  if (!written.odd.empty() && !isOddSaid_)
    warn_(written.odd + " at step " + std::to_string(state.step) + ": checkpoints go to " +
          pathBeside(o_.save, "nonfinite") + (savedAt_ < 0 ? "" : ", and " + left()));
  isOddSaid_ = !written.odd.empty();
  return Status::ok();
}

Status CheckpointKeeper::saveBest(const TrainingState &state) {
  Result<Checkpoint> checkpoint = Checkpoint::take(session_, state);
  if (!checkpoint) return Status(checkpoint.status()).withContext("saving " + o_.save);
  bestOdd_ = oddVariable(*checkpoint);
  best_.reset();
  if (!bestOdd_.empty() || !writes_) return Status::ok();
  best_ = std::move(*checkpoint);
  say(writeBest());
  return Status::ok();
}

Status CheckpointKeeper::writeBest() {
  const Status status = best_ ? best_->write(pathBeside(o_.save, "best")) : Status::ok();
  if (status) best_.reset();
  return status;
}

std::string CheckpointKeeper::bestPlace() const {
  const std::string path = pathBeside(o_.save, "best");
  if (best_) return ", which is not in " + path + ": it could not be written";
  if (!bestOdd_.empty()) return ", which is not in " + path + ": " + bestOdd_;
  std::error_code error;
  return fs::exists(path, error) || !writes_ ? " in " + path : ", of which there is no " + path;
}

Status CheckpointKeeper::finish(const TrainingState &state, const std::string &odd) {
  if (o_.save.empty()) return Status::ok();
  const Status best = writeBest(); // tried again
  // One process alone may have failed to write.
  OPC_ASSIGN_OR_RETURN(const int64_t isOpen, session_.agree(doneAt_ != state.step));
  if (isOpen) {
    OPC_ASSIGN_OR_RETURN(const Written written, write(state, odd));
    if (!written.status) return written.status;
  }
  OPC_RETURN_IF_ERROR(best);
  if (odd_.empty()) return Status::ok();
  return Status(StatusCode::kExecution, "OPC0621", odd_ + " at step " + std::to_string(state.step))
      .withHelp("the variables are in " + pathBeside(o_.save, "nonfinite") + "; " + left() +
                "; --trap nan,inf finds the op that makes the first such value" +
                (o_.saveEvery ? "" : ", and --save-every N keeps good states"));
}

std::string CheckpointKeeper::left() const {
  if (savedAt_ >= 0) return o_.save + " is of step " + std::to_string(savedAt_);
  std::error_code error;
  return fs::exists(o_.save, error) ? o_.save + " is as it was" : "there is no " + o_.save;
}

} // namespace opc::cli
