// Measuring this machine with all ranks of a plan at work.
// SPDX-License-Identifier: Apache-2.0
#include "Calibration.h"

#include "ClusterFit.h"
#include "InProcessCommunicator.h"
#include "Launcher.h"
#include "Measurement.h"
#include "MpiModule.h"
#include "NumberText.h"
#include "PlanFile.h"
#include "PlanOps.h"
#include "PlanSizes.h"
#include "TextParts.h"

#include <algorithm>
#include <thread>
#include <unistd.h>

namespace opc::cli {

namespace {

simulate::OpSample sampleOf(const runtime::MeasuredOpTime &t) { return {t.op, t.type, t.cost, t.seconds}; }

/// All ranks as threads of this process.
Result<runtime::MachineMeasurement> measureInProcess(int64_t ranks, const Registry &registry,
                                                     const std::vector<runtime::OpUnderTest> &ops,
                                                     const runtime::MeasureOptions &options) {
  auto communicators = runtime::inProcessCommunicators(ranks);
  std::vector<std::optional<Result<runtime::MachineMeasurement>>> found(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  const auto measure = [&](size_t rank) {
    found[rank].emplace(runtime::measureMachine(*communicators[rank], registry, ops, options));
    if (!*found[rank]) communicators[rank]->abort(found[rank]->status().toString());
  };
  for (size_t r = 1; r < found.size(); ++r) threads.emplace_back(measure, r);
  measure(0);
  for (std::thread &t : threads) t.join();
  for (const auto &f : found)
    if (!*f) return f->status();
  return std::move(*found[0]);
}

} // namespace

Result<Calibration> calibrate(std::string_view planFile, const Registry &registry) {
  OPC_ASSIGN_OR_RETURN(plan::Plan plan, decodePlan(planFile));
  fixSizes(&plan, largestSizes(plan));
  const int64_t ranks = std::max(1, plan.part_of_rank_size());
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  if (ranks > 64)
    return Status(StatusCode::kUsage, "OPC0748",
                  "a machine is measured with all ranks of the plan at once, and " + std::to_string(ranks) +
                      " are too many")
        .withHelp("calibrate with a smaller --mesh, and describe the larger cluster by hand");
  std::vector<runtime::OpUnderTest> ops;
  for (simulate::PlanOp &op : simulate::distinctOps(plan, registry))
    ops.push_back({std::move(op.op), std::move(op.constant)});
  runtime::MeasureOptions options;
  options.threads = static_cast<int>(std::max<int64_t>(1, cores / ranks));
  options.cores = cores;
  uint64_t arena = 0;
  const plan::Plan &part = plan.part_size() > 0 ? plan.part(0) : plan;
  for (const plan::Arena &a : part.arena()) arena += a.bytes();
  options.footprint = std::clamp<uint64_t>(arena, 1 << 20, uint64_t{64} << 20);

  Calibration result;
  std::string engine = "threads of one process";
  std::optional<Result<runtime::MachineMeasurement>> measured;
  if (const auto launched = runtime::launchedRank(); launched && launched->size != 1) {
    OPC_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Communicator> comm, runtime::mpiCommunicator({}));
    if (comm->size() != ranks)
      return Status(StatusCode::kUsage, "OPC0748",
                    "the plan is for " + std::to_string(ranks) + " ranks, and " + std::to_string(comm->size()) +
                        " were started")
          .withHelp("give --mesh as many devices as there are processes");
    engine = std::string("processes, ") + comm->engine();
    result.isFirst = comm->rank() == 0;
    measured.emplace(runtime::measureMachine(*comm, registry, ops, options));
  } else {
    measured.emplace(measureInProcess(ranks, registry, ops, options));
  }
  if (!*measured) return measured->status();
  const runtime::MachineMeasurement &m = **measured;
  simulate::MachineSamples samples;
  samples.name = "this machine, " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks: " + engine);
  samples.ranks = m.computing;
  samples.cores = static_cast<double>(cores);
  samples.memoryBytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE)) /
                        static_cast<uint64_t>(ranks);
  samples.copyBandwidth = m.copyBandwidth;
  samples.taskOverhead = m.taskOverhead;
  for (const auto &t : m.products) samples.products.push_back(sampleOf(t));
  for (const auto &t : m.ops) samples.ops.push_back(sampleOf(t));
  for (const auto &s : m.steps) samples.steps.push_back({s.op, s.seconds});
  OPC_ASSIGN_OR_RETURN(result.cluster, simulate::fitCluster(samples));
  return result;
}

std::string calibrationText(const simulate::ClusterDescription &c) {
  const simulate::NetworkLevel &level = c.levels.front();
  std::string text =
      "measured with " + counted(c.devicesPerHost, "rank") + " at work: " + roundedText(c.flops.at(kFloat) / 1e9, 3) +
      " GFLOP/s of f32 a rank, half of it at width " + roundedText(c.efficiency.halfWidth, 3) + "; " +
      roundedText(c.memoryBandwidth / 1e9, 3) + " GB/s of memory; " + std::to_string(c.ops.size()) + " types of ops";
  for (const auto &[kind, link] : level.collectives)
    text += "; " + std::string(boxingKindName(kind)) + " " + secondsText(link.latency) + " and " +
            roundedText(link.bandwidth / 1e9, 3) + " GB/s";
  return text;
}

} // namespace opc::cli
