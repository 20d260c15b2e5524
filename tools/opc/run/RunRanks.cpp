// One graph on several ranks.
#include "RunRanks.h"

#include "JsonOutput.h"
#include "Log.h"
#include "NumberText.h"

#include <algorithm>
#include <cstring>

namespace opc::cli {

std::vector<Option> RankJob::options() {
  return {
      {"--ranks", 0, "N", "run on N ranks: processes that mpirun starts, or threads with --in-process", &ranksText_,
       true},
      {"--in-process", 0, "", "the ranks are threads of this process", &inProcess_},
      {"--mesh", 0, "DIMS", "what a graph is compiled for: 4, 2x2 (default: the number of ranks)", &meshText_, true},
      {"--timeout", 0, "S", "seconds that a rank waits for another one before the run ends (default 300)",
       &timeoutText_},
      {"--launcher", 0, "CMD", "what starts the processes, in place of mpirun -n N; the command is appended",
       &launcher_},
      {"--deterministic", 0, "", "sum over ranks in the order of the ranks, whatever the size", &deterministic_}};
}

Status RankJob::readFlags() {
  if (!meshText_.empty()) {
    const auto dims = parseMesh(meshText_);
    if (!dims) return usageError("--mesh takes dimensions such as 4 or 2x2, not '" + meshText_ + "'");
    mesh_ = *dims;
    ranks_ = 1;
    for (int64_t d : mesh_) ranks_ *= d;
  }
  if (!ranksText_.empty()) {
    const auto n = parseInteger<int64_t>(ranksText_);
    if (!n || *n < 1 || *n > 4096) return usageError("--ranks takes a number from 1 to 4096, not '" + ranksText_ + "'");
    if (!mesh_.empty() && *n != ranks_)
      return usageError("--mesh " + meshText_ + " is a mesh of " + std::to_string(ranks_) + " ranks, not of " +
                        ranksText_);
    ranks_ = *n;
  }
  if (!timeoutText_.empty()) {
    const auto seconds = parseReal(timeoutText_);
    if (!seconds || !(*seconds > 0) || *seconds > 1e6)
      return usageError("--timeout takes a number of seconds above 0, not '" + timeoutText_ + "'");
    timeout_ = *seconds;
  }
  if (inProcess_ && !launcher_.empty())
    return usageError("--launcher starts processes, --in-process threads: give one");
  if (inProcess_ && ranks_ == 1 && ranksText_.empty() && mesh_.empty())
    return usageError("--in-process needs the number of ranks", "--ranks 4 --in-process");
  return Status::ok();
}

void RankJob::setMesh(CompileOptions *options) const {
  (void)options; // the compiler plans for one device
}

void RankJob::setSession(SessionOptions *options) const {
  options->communicator = communicator_.get();
  options->ranks = ranks_;
  options->deterministic = deterministic_;
  options->timeout = timeout_;
}

Status RankJob::launch(Invocation &) {
  return Status(StatusCode::kUnsupported, "OPC0718", "ranks as processes are not there yet")
      .withHelp("run them as threads: --in-process");
}

Status RankJob::start(Invocation &invocation, const std::string &) {
  if (ranks_ > 1 && !inProcess_) return launch(invocation);
  return Status::ok();
}

int RankJob::finish(Invocation &, int code) { return code; }

std::string rankStatsText(const std::vector<RankStats> &stats) {
  std::string text;
  for (const RankStats &r : stats)
    text += "rank " + std::to_string(r.rank) + ": " + bytesText(r.bytesSent) + " sent in " + countText(r.messages) +
            (r.messages == 1 ? " message, " : " messages, ") + bytesText(r.arenaBytes) + " of memory\n";
  return text;
}

} // namespace opc::cli
