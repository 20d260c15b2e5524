// The time and the memory of a plan on a cluster that need not exist: a discrete event simulation of the plan that
// would run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Cluster.h"
#include "Registry.h"
#include "plan.pb.h"

#include <string>
#include <utility>
#include <vector>

namespace opc::simulate {

struct SimulationOptions {
  bool trace = false;         // keep what happened, for traceJson
  size_t maxEvents = 200'000; // of the trace
};

/// Ranks that do the same at the same time, by one of them.
struct RankClass {
  uint32_t part = 0;
  int64_t firstRank = 0, ranks = 0;
  double computeSeconds = 0;
  double communicationSeconds = 0; // of the steps themselves, without waiting for others
  double exposedSeconds = 0;       // of these, what no computation hides
  double idleSeconds = 0;          // neither: waiting for other ranks or streams
  uint64_t arenaBytes = 0;
};

/// What goes over the links of one mesh dimension ("axis 0 of 2x4"), or between placements.
struct LinkTraffic {
  std::string axis, level;  // level: of the cluster's network
  int64_t collectives = 0;  // steps, for one rank of the class with most
  uint64_t bytesOfRank = 0; // sent by the rank that sends most
  uint64_t bytes = 0;       // sent by all ranks
};

struct SimulatedEvent {
  uint32_t rankClass = 0, stream = 0, task = 0; // task: of the part
  int64_t step = 0;
  double begin = 0, end = 0; // seconds
};

struct SimulationReport {
  std::string graph, cluster;
  int64_t ranks = 1;
  uint32_t microBatches = 1;
  double stepSeconds = 0;
  /// Of the slowest rank class.
  double computeSeconds = 0, communicationSeconds = 0, exposedSeconds = 0;
  double bubbleFraction = 0;                     // idle share of the step, mean over ranks
  uint64_t peakMemoryBytes = 0, memoryBytes = 0; // of the fullest device, and what one has
  bool fits() const { return peakMemoryBytes <= memoryBytes; }
  std::vector<RankClass> classes;
  std::vector<LinkTraffic> links;
  /// Bytes that each rank sends in a step; empty when there are more than kExactRanks of them.
  std::vector<uint64_t> bytesSent;
  bool exactBytes() const { return bytesSent.size() == static_cast<size_t>(ranks); }
  uint64_t simulatedTasks = 0; // how much work it was
  std::vector<SimulatedEvent> events;
  std::vector<std::string> eventNames; // by event
  bool eventsCut = false;
};
/// Up to here every rank's bytes are counted; above, one rank's of each class stand for the others.
constexpr int64_t kExactRanks = 256;

/// One step of the session (all micro-batches) of a plan of one or several ranks. Ranks that do the same are simulated
/// once. Errors: OPC0744 the cluster is too small or its axes are for another mesh; OPC0745 a plan that makes no sense
/// (checked as far as the simulation needs); OPC0746 the plan cannot finish: streams or ranks wait for each other;
/// OPC0201 an unknown op.
Result<SimulationReport> simulate(const plan::Plan &plan, const Registry &registry, const ClusterDescription &cluster,
                                  const SimulationOptions &options = {});

/// Whether all tasks of all ranks come to their end. Errors: OPC0746 with a task that waits for ever, and its rank;
/// OPC0745.
Status checkFinishes(const plan::Plan &plan, const Registry &registry);

/// The kept events in the format of chrome://tracing and Perfetto: one process a rank class, one thread a stream.
std::string traceJson(const SimulationReport &report);

} // namespace opc::simulate
