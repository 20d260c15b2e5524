// One graph on several ranks.
// SPDX-License-Identifier: Apache-2.0
#include "RunRanks.h"

#include "CommandWords.h"
#include "DiagnosticText.h"
#include "LaunchedJob.h"
#include "Log.h"
#include "MpiModule.h"
#include "NumberText.h"
#include "OptionRanges.h"
#include "OptionsOf.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace opc::cli {

namespace {
static_assert(ranges::kThreads.most == kMostThreads, "-j and the C interface take the same");
constexpr auto kMostRanks = static_cast<int64_t>(ranges::kRanks.most);
constexpr int kChannels = 16;               // the plan's streams, and the last one for the end of the command
constexpr int kGathering = kChannels - 2;   // while no stream runs
constexpr size_t kPiece = size_t{16} << 20; // bytes that are gathered at once
/// The least and the most that the clocks of sessions and communicators count, in seconds.
constexpr double kShortestWait = 1e-3, kLongestWait = 1e9;
constexpr int kSignalled = 128; // from this exit code on all ranks have ended as they were asked to

/// --timeout, as far as it is counted.
double waitOf(double timeout) { return std::clamp(timeout, kShortestWait, kLongestWait); }

runtime::CommBlock blockOf(void *data, size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  return {data, {size}, Box{{0}, {size}}, 1};
}
} // namespace

std::vector<Option> RankJob::options() {
  std::vector<Option> options = {
      within({"--ranks", 0, "N", "run on N ranks: processes that mpirun starts, or threads with --in-process", &given_,
              true},
             ranges::kRanks),
      {"--in-process", 0, "", "the ranks are threads of this process", &inProcess_},
      Option{"--timeout", 0, "S", "seconds that a rank waits for another one before the run ends (default 300)",
             &timeout_}
          .above(0, "number of seconds"),
      {"--launcher", 0, "CMD", "what starts the processes, in place of mpirun; -n N and the command are appended",
       &launcher_}};
  for (Option &o : mesh_.options()) options.push_back(std::move(o));
  return options;
}

Status RankJob::readFlags(int64_t devices) {
  const std::optional<runtime::LaunchedRank> launched = runtime::launchedRank();
  std::vector<int64_t> row; // without --mesh
  if (given_) {
    ranks_ = *given_;
  } else if (launched && launched->size > 0 && !inProcess_) {
    if (launched->size > kMostRanks)
      return usageError("the launcher has started " + std::to_string(launched->size) + " ranks, opc runs on at most " +
                            std::to_string(kMostRanks),
                        "--ranks 1 runs on one, whatever has started it");
    ranks_ = launched->size;
  } else if (devices > 1) {
    ranks_ = devices;
    inProcess_ = true;
  }
  if (ranks_ > 1) row = {ranks_};
  OPC_ASSIGN_OR_RETURN(request_, mesh_.request(row));
  if (request_ && request_->devices() != ranks_) {
    const std::string mesh = "--mesh is a mesh of " + std::to_string(request_->devices()) + " ranks, ";
    if (given_) return usageError(mesh + "--ranks says " + std::to_string(*given_));
    if (inProcess_ && devices > 1)
      return usageError(mesh + "and --device names " + std::to_string(devices) + " devices");
    if (ranks_ > 1) return usageError(mesh + "and the launcher has started " + std::to_string(ranks_));
    ranks_ = request_->devices();
    if (ranks_ > kMostRanks) // before anything starts them
      return usageError(mesh + "opc runs on at most " + std::to_string(kMostRanks), "opc compile plans for more");
  }
  isAsked_ = given_ || devices > 1 || (request_ && row.empty());
  if (inProcess_ && !launcher_.empty())
    return usageError("--launcher starts processes, --in-process threads: give one");
  if (inProcess_ && !isAsked_) return usageError("--in-process needs the number of ranks", "--ranks 4 --in-process");
  return Status::ok();
}

void RankJob::setSession(SessionOptions *options) const {
  options->communicator = communicator_.get();
  options->ranks = ranks_;
  options->timeout = waitOf(timeout_);
  options->report = report_;
}

Result<std::optional<int>> RankJob::launch(Invocation &invocation, bool isPatient) const {
  // -C has been followed already.
  std::vector<std::string> arguments =
      withoutOption(optionsOf(invocation.commandLine()), invocation.commandLine(), "-C");
  OPC_ASSIGN_OR_RETURN(runtime::LaunchCommand command,
                       runtime::launchCommand(runtime::launchRequestHere(ranks_, std::move(arguments), launcher_)));
  if (invocation.flags().verbose) invocation.note(command.text());
  Terminal &terminal = invocation.terminal();
  const auto show = [&terminal](std::string_view bytes) { terminal.relay(bytes); };
  OPC_ASSIGN_OR_RETURN(const int code, runtime::launch(command, {show, isPatient}));
  return std::optional(code);
}

Status RankJob::join(Invocation &invocation, int64_t size) {
  Terminal &terminal = invocation.terminal();
  const int64_t rank = runtime::launchedRank()->rank;
  report_ = [this, &terminal, rank](const RankReport &report) {
    if (isOver_) return;
    // Every rank that is left says why it ends: one of them is enough. Who has failed speaks for itself; ranks that
    // fail alike do it in turns, and the first one ends the others.
    if (report.kind == RankReport::Kind::kFailed) {
      if (report.rank != rank) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(100 * rank, 2000)));
    } else if (rank > 1 || (rank == 1 && report.kind == RankReport::Kind::kGone && report.rank != 0)) {
      return; // of what happens to rank 0, rank 1 speaks
    }
    const std::string text = statusText(Status(StatusCode::kExecution, report.id, report.message), terminal.colorErr());
    terminal.errAtOnce(text);
  };
  runtime::MpiOptions options;
  options.channels = kChannels;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(waitOf(timeout_) * 1000));
  options.report = report_;
  options.exitCode = kExitExecution;
  OPC_ASSIGN_OR_RETURN(communicator_, runtime::mpiCommunicator(options));
  terminal.mute(communicator_->rank() > 0); // until now the environment has said it
  if (size > 0 && communicator_->size() != size)
    return usageError("the launcher has started " + std::to_string(communicator_->size()) + " ranks, not " +
                      std::to_string(size));
  ranks_ = communicator_->size();
  if (!request_ && ranks_ > 1) {
    OPC_ASSIGN_OR_RETURN(request_, mesh_.request({ranks_}));
  }
  return Status::ok();
}

Result<std::optional<int>> RankJob::start(Invocation &invocation, const std::string &input, bool isPatient) {
  if (inProcess_ || (given_ && ranks_ == 1)) {
    invocation.terminal().mute(false); // not as a rank of a job that something has launched
    return std::optional<int>();
  }
  const std::optional<runtime::LaunchedRank> launched = runtime::launchedRank();
  if (launched && launched->size != 1) {
    if (Status s = join(invocation, isAsked_ ? ranks_ : -1); !s) return s;
    if (ranks_ > 1 && input == "-")
      return usageError("the standard input reaches the first rank alone", "give a file that all ranks see");
    return std::optional<int>();
  }
  if (ranks_ == 1) return std::optional<int>();
  if (input == "-")
    return usageError("the standard input reaches the first rank alone", "give a file, or --in-process");
  return launch(invocation, isPatient);
}

Result<std::vector<int64_t>> RankJob::tell(int64_t mine) const {
  std::vector<int64_t> all(static_cast<size_t>(processes()), mine);
  if (communicator_) OPC_RETURN_IF_ERROR(communicator_->allGatherBytes(&mine, sizeof mine, all.data()));
  return all;
}

Result<std::vector<std::string>> RankJob::gather(const std::string &mine) const {
  OPC_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes, tell(static_cast<int64_t>(mine.size())));
  if (!isFirst()) {
    for (size_t at = 0; at < mine.size(); at += kPiece)
      OPC_RETURN_IF_ERROR(communicator_->exchange(
          kGathering, {{0, blockOf(const_cast<char *>(&mine[at]), std::min(kPiece, mine.size() - at))}}, {}));
    return std::vector<std::string>();
  }
  std::vector<std::string> all{mine};
  for (size_t rank = 1; rank < bytes.size(); ++rank) {
    std::string &text = all.emplace_back(static_cast<size_t>(bytes[rank]), '\0');
    for (size_t at = 0; at < text.size(); at += kPiece)
      OPC_RETURN_IF_ERROR(communicator_->exchange(
          kGathering, {}, {{static_cast<int64_t>(rank), blockOf(&text[at], std::min(kPiece, text.size() - at))}}));
  }
  return all;
}

int RankJob::finish(Invocation &invocation, int code) {
  if (!communicator_ || communicator_->size() == 1) return code;
  struct Card {
    int32_t code;
    char error[1020];
  } mine{code, {}};
  if (code) std::strncpy(mine.error, invocation.terminal().lastError().c_str(), sizeof mine.error - 1);
  const int64_t size = communicator_->size();
  std::vector<Card> all(static_cast<size_t>(size));
  all[0] = mine;
  // Messages on a channel of their own: who has failed alone finds nobody here, since the others are in the middle of
  // something else.
  std::mutex lock;
  std::condition_variable changed;
  bool isDone = false;
  Status status;
  std::thread gathering([&] {
    auto block = [](Card *cards, int64_t count) { return blockOf(cards, sizeof(Card) * static_cast<size_t>(count)); };
    std::vector<runtime::CommMessage> cards, verdicts;
    if (isFirst()) {
      for (int64_t r = 1; r < size; ++r) {
        cards.push_back({r, block(&all[static_cast<size_t>(r)], 1)});
        verdicts.push_back({r, block(all.data(), size)});
      }
    } else {
      cards.push_back({0, block(&mine, 1)});
      verdicts.push_back({0, block(all.data(), size)});
    }
    Status s = isFirst() ? communicator_->exchange(kChannels - 1, {}, cards)
                         : communicator_->exchange(kChannels - 1, cards, {});
    if (s)
      s = isFirst() ? communicator_->exchange(kChannels - 1, verdicts, {})
                    : communicator_->exchange(kChannels - 1, {}, verdicts);
    std::lock_guard guard(lock);
    status = std::move(s);
    isDone = true;
    changed.notify_one();
  });
  if (code) {
    std::unique_lock guard(lock);
    if (!changed.wait_for(guard, std::chrono::seconds(3), [&] { return isDone; })) {
      guard.unlock();
      if (!isFirst()) { // which has not spoken yet
        invocation.terminal().errAtOnce("rank " + std::to_string(rank()) + ": " + mine.error);
      }
      communicator_->abort(mine.error); // ends this process
    }
  }
  gathering.join();
  isOver_ = status.isOk();
  if (!status) return code ? code : invocation.fail(status);
  int worst = code;
  for (size_t r = 0; r < all.size(); ++r) {
    if (!all[r].code) continue;
    if (!worst) worst = all[r].code;
    bool isNew = isFirst() && r > 0 && all[r].code < kSignalled;
    for (size_t other = 0; other < r; ++other)
      isNew &= !all[other].code || std::strncmp(all[other].error, all[r].error, sizeof mine.error) != 0;
    if (!isNew) continue;
    const std::string text = "rank " + std::to_string(r) + ": " + all[r].error;
    invocation.terminal().err(text);
    logText(text);
  }
  (void)invocation.terminal().flush();
  communicator_.reset();
  return worst;
}

std::string rankStatsText(const std::vector<RankStats> &stats) {
  std::string text;
  for (const RankStats &r : stats)
    text += "rank " + std::to_string(r.rank) + ": " + bytesText(r.bytesSent) + " sent in " + countText(r.messages) +
            (r.messages == 1 ? " message, " : " messages, ") + bytesText(r.arenaBytes) + " of memory\n";
  return text;
}

} // namespace opc::cli
