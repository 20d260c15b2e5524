// --ranks, --in-process, --mesh: one graph on several ranks, as threads or as processes of an MPI job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "Communicator.h"
#include "Invocation.h"
#include "MeshFlags.h"
#include "Pipeline.h"
#include "Session.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// Prints of several ranks: the first one's, and of the others what goes wrong there alone.
class RankJob {
public:
  std::vector<Option> options();
  /// Checks the flags' values. `devices`: how many --device names, which are as many ranks of this process where no
  /// flag and no launcher says another thing. OPC0001.
  Status readFlags(int64_t devices = 1);

  /// Becomes part of the job that a launcher has started this process for, or runs a launcher whose ranks do what this
  /// process is asked for: its exit code. `input`: the path of the graph or plan; `isPatient`: the ranks end in an
  /// orderly way after a signal. Errors: OPC0724, OPC0725.
  Result<std::optional<int>> start(Invocation &invocation, const std::string &input, bool isPatient);

  /// What a graph is compiled for: --mesh, else the ranks in a row; nothing for one rank. After start().
  const std::optional<MeshRequest> &mesh() const { return request_; }
  /// Sets what a session needs to know.
  void setSession(SessionOptions *options) const;

  int64_t ranks() const { return ranks_; }
  /// Of which each is a rank; 1: all ranks are threads of this one.
  int64_t processes() const { return communicator_ ? communicator_->size() : 1; }
  const std::string &clusterFile() const { return mesh_.clusterFile(); }
  /// MeshFlags::planning().
  std::string planning() const { return mesh_.planning(); }
  /// Of this process: 0 unless it is one of several.
  int64_t rank() const { return communicator_ ? communicator_->rank() : 0; }
  /// Whether this process prints and writes files.
  bool isFirst() const { return rank() == 0; }

  /// What each process says, by rank; for all of them to know. A call of all processes, between two runs.
  Result<std::vector<int64_t>> tell(int64_t mine) const;
  /// The texts of all processes, by rank, at the first one; nothing elsewhere. A call of all processes, between two
  /// runs.
  Result<std::vector<std::string>> gather(const std::string &mine) const;

  /// The end of the command: what has gone wrong on other ranks alone is reported by the first, and all of them get the
  /// exit code.
  int finish(Invocation &invocation, int code);

private:
  Result<std::optional<int>> launch(Invocation &invocation, bool isPatient) const;
  Status join(Invocation &invocation, int64_t size);

  std::optional<int64_t> given_; // --ranks
  std::string launcher_;
  MeshFlags mesh_;
  std::optional<MeshRequest> request_;
  bool inProcess_ = false;
  int64_t ranks_ = 1;
  bool isAsked_ = false; // the flags say how many ranks
  double timeout_ = 300;
  std::unique_ptr<runtime::Communicator> communicator_;
  std::function<void(const RankReport &)> report_;
  // Every rank knows how it has ended: a launcher that now ends the slow ones is nobody's failure.
  std::atomic<bool> isOver_ = false;
};

/// "rank 1: 1.2 KB sent in 3 messages, 4 KB of memory", a line for each rank.
std::string rankStatsText(const std::vector<RankStats> &stats);

} // namespace opc::cli
