// The ranks of a job that this process runs: one, or one a thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"
#include "ForkCount.h"
#include "HostTensor.h"
#include "PlanSharding.h"
#include "RankGraph.h"
#include "RankThreads.h"

#include <chrono>
#include <memory>
#include <vector>

namespace opc::runtime {

struct LocalRanks {
  JobPlan job;
  Communicator *processes = nullptr; // this rank's end where ranks are processes
  std::chrono::milliseconds timeout{0};
  std::vector<std::unique_ptr<Communicator>> communicators; // the ends of ranks that are threads
  std::vector<std::unique_ptr<RankGraph>> here;
  std::unique_ptr<RankThreads> threads;
  int forks = forkCount();
  bool hasThreads = true; // more than the caller's

  /// fork() copies no threads but the caller's: in the child the others would be waited for forever.
  Status checkProcess() const;

  TaskGraph &graph() const { return here[0]->graph(); }
  Communicator *link(size_t i) const {
    return processes ? processes : communicators.empty() ? nullptr : communicators[i].get();
  }
  /// The tensors of the interface are those of the one rank.
  bool isPlain() const { return job.ranks == 1 && job.microBatches == 1; }

  /// The same work on every rank of this process.
  template <class Work> Status forAll(Work &&work) {
    if (here.size() == 1) {
      if (job.ranks == 1) return work(size_t{0});
      Status status = work(size_t{0});
      return status ? status : std::move(status).withContext("on rank " + std::to_string(here[0]->rank()));
    }
    return worst(threads->forAll(std::forward<Work>(work)));
  }

  /// forAll() of what comes before a run: others may wait for what a rank that has failed has to say of its device.
  template <class Work> Status forAllBefore(Work work) {
    Status status = forAll([&](size_t i) {
      Status s = work(i);
      if (!s && !communicators.empty() && s.id() != kRankGone) link(i)->abort(s.message());
      return s;
    });
    return status ? status : connectAgain(std::move(status));
  }
  /// Of rank i of this process: what its communicator has carried, and what has gone from device to device.
  CommCounters travelled(size_t i) const;

  /// A rank of this process that has the whole tensor, where that makes a call of the whole job unnecessary.
  template <class Has> const RankGraph *holder(const JobPort &port, Has has) const {
    if (job.ranks > 1 && (!isBroadcast(port.states) || (processes && !isEverywhere(port, job)))) return nullptr;
    for (const auto &r : here)
      if (has(*r)) return r.get();
    return nullptr;
  }
  /// A call of the whole job that leaves a whole tensor on every rank; this process wants it once.
  template <class Call> Status gather(HostTensor *t, Call call) {
    OPC_RETURN_IF_ERROR(checkProcess());
    std::vector<HostTensor> others(here.size());
    for (size_t i = 1; i < here.size(); ++i) {
      OPC_ASSIGN_OR_RETURN(others[i], HostTensor::createUninitialized(t->dtype(), t->shape()));
    }
    Status status = forAll([&](size_t i) {
      Status s = call(*here[i], *link(i), i == 0 ? t->data() : others[i].data());
      if (!s && s.id() != kRankGone) link(i)->abort(s.message());
      return s;
    });
    return status ? status : connectAgain(std::move(status));
  }

  /// What an input was given, as far as ranks of this process have it. `whole` has room for `bytes`, all of it.
  Status readInput(size_t index, void *whole, uint64_t bytes) const;

  /// By input or variable of the job (`portOf`): whether an output of a rank here has its memory.
  std::vector<bool> shown(size_t count, const ModelPort *(RankGraph::*portOf)(size_t) const) const;

  /// After a failure the ends of ranks in this process are new ones: the session can be run again.
  Status connectAgain(Status failure);
  void connect();

private:
  /// What has gone wrong on one of the ranks of this process: the first that is not the echo of another one's failure.
  Status worst(const std::vector<Status> &statuses) const;
};

} // namespace opc::runtime
