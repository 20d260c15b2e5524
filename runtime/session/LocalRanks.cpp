// The ranks of a job that this process runs.
// SPDX-License-Identifier: Apache-2.0
#include "LocalRanks.h"

#include "InProcessCommunicator.h"
#include "RankDevices.h"
#include "cuda/CudaDriver.h"

#include <algorithm>

namespace opc {

std::string exchangeOfDevices() { return runtime::lastExchange(); }

size_t simulatorErrors() {
  const runtime::cuda::CudaDriver *driver = runtime::cuda::CudaDriver::openedSimulator();
  return driver ? driver->simulatorErrors() : 0;
}

} // namespace opc

namespace opc::runtime {

Status LocalRanks::checkProcess() const {
  if (forks == forkCount() || !hasThreads) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0619", "the session was made before fork(), and its threads stayed behind")
      .withHelp("load the plan again in the child, or before fork() with one thread (SessionOptions::threads)");
}

std::vector<bool> LocalRanks::shown(size_t count, const ModelPort *(RankGraph::*portOf)(size_t) const) const {
  std::vector<bool> shown(count);
  for (const auto &r : here) {
    const PlanModel &model = r->graph().model();
    std::vector<bool> isOutput(model.registers.size());
    for (const ModelPort &output : model.outputs) isOutput[model.tensors[output.tensor].reg] = true;
    for (size_t i = 0; i < count; ++i)
      if (const ModelPort *port = (*r.*portOf)(i)) shown[i] = shown[i] || isOutput[model.tensors[port->tensor].reg];
  }
  return shown;
}

Status LocalRanks::readInput(size_t index, void *whole, uint64_t bytes) const {
  // A graph of other sizes may be there still; all of them have the same place for it.
  if (isPlain()) return graph().copyPrefixOut(here[0]->input(index)->tensor, whole, bytes);
  for (const auto &r : here) OPC_RETURN_IF_ERROR(r->readInput(index, whole));
  return Status::ok();
}

Status LocalRanks::worst(const std::vector<Status> &statuses) const {
  size_t at = statuses.size();
  for (size_t i = 0; i < statuses.size(); ++i)
    if (!statuses[i].isOk() &&
        (at == statuses.size() || (statuses[at].id() == kRankGone && statuses[i].id() != kRankGone)))
      at = i;
  if (at == statuses.size()) return Status::ok();
  if (job.ranks == 1) return statuses[at];
  return Status(statuses[at]).withContext("on rank " + std::to_string(here[at]->rank()));
}

CommCounters LocalRanks::travelled(size_t i) const {
  CommCounters all = link(i) ? link(i)->counters() : CommCounters();
  if (const DeviceExchange *exchange = here[i]->graph().exchange()) {
    const CommCounters more = exchange->counters();
    all.bytesSent += more.bytesSent, all.bytesReceived += more.bytesReceived;
    all.messages += more.messages + more.collectives;
  }
  return all;
}

Status LocalRanks::connectAgain(Status failure) {
  if (!communicators.empty()) connect();
  return failure;
}

void LocalRanks::connect() {
  InProcessOptions engine;
  engine.timeout = timeout;
  for (const auto &r : here)
    engine.channels = std::max(engine.channels, static_cast<int>(r->graph().model().streams.size()));
  communicators = inProcessCommunicators(job.ranks, engine);
  for (size_t i = 0; i < here.size(); ++i) here[i]->graph().setCommunicator(communicators[i].get());
}

} // namespace opc::runtime
