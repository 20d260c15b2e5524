// What a simulated step takes, for people and for programs.
// SPDX-License-Identifier: Apache-2.0
#include "SimulationReport.h"

#include "GraphInput.h"
#include "NumberText.h"
#include "PlanFile.h"
#include "PlanSizes.h"
#include "Session.h"
#include "TextTable.h"

#include <algorithm>

namespace opc::cli {

using simulate::LinkTraffic;
using simulate::RankClass;
using simulate::SimulationReport;

Result<simulate::ClusterDescription> readClusterFile(const std::string &path) {
  OPC_ASSIGN_OR_RETURN(GraphInput file, readGraphInput(path));
  return simulate::parseCluster(file.bytes.text(), file.name);
}

Result<SimulationReport> simulatePlan(std::string_view planFile, const Registry &registry,
                                      const simulate::ClusterDescription &cluster, const std::string &trace) {
  OPC_ASSIGN_OR_RETURN(plan::Plan plan, decodePlan(planFile));
  fixSizes(&plan, largestSizes(plan));
  simulate::SimulationOptions options;
  options.trace = !trace.empty();
  Result<SimulationReport> report = simulate::simulate(plan, registry, cluster, options);
  if (report && !trace.empty())
    if (Status s = writeFileAtomically(trace, simulate::traceJson(*report)); !s) return s;
  return report;
}

std::string simulationText(const SimulationReport &r) {
  const auto line = [](const std::string &name, const std::string &text) { return padded(name, 15) + text + "\n"; };
  const auto percent = [](double share) { return roundedText(100 * share, 3) + " %"; };
  std::string text =
      line("simulated", "one step on " + countText(r.ranks, "rank") + " of '" + r.cluster + "'" +
                            (r.microBatches > 1 ? ", " + std::to_string(r.microBatches) + " micro-batches" : ""));
  text += line("step", secondsText(r.stepSeconds));
  text += line("compute", secondsText(r.computeSeconds) + " on the busiest rank");
  text += line("communication", secondsText(r.communicationSeconds) + ", " + secondsText(r.exposedSeconds) +
                                    " of it not hidden by computation");
  text += line("bubble", percent(r.bubbleFraction) + " of the step, mean over ranks");
  text += line("memory", bytesText(r.peakMemoryBytes) + " on the fullest device of " + bytesText(r.memoryBytes) +
                             (r.fits() ? "" : ": DOES NOT FIT"));
  for (const LinkTraffic &l : r.links)
    text += line("link", l.axis + " (" + l.level + "): " + countText(l.collectives, "step") + ", " +
                             bytesText(l.bytesOfRank) + " sent by a rank, " + bytesText(l.bytes) + " by all");
  constexpr size_t kShown = 16;
  if (r.classes.size() > 1)
    for (size_t i = 0; i < std::min(kShown, r.classes.size()); ++i) {
      const RankClass &c = r.classes[i];
      text += line("rank " + std::to_string(c.firstRank),
                   (c.ranks > 1 ? "and " + countText(c.ranks - 1) + " like it: " : "") + "compute " +
                       secondsText(c.computeSeconds) + ", exposed communication " + secondsText(c.exposedSeconds) +
                       ", idle " + secondsText(c.idleSeconds) + ", " + bytesText(c.arenaBytes));
    }
  if (r.classes.size() > kShown)
    text += line("", "and " + std::to_string(r.classes.size() - kShown) + " more kinds of ranks (--json has all)");
  return text;
}

Json simulationJson(const SimulationReport &r) {
  Json links = Json::array(), classes = Json::array();
  for (const LinkTraffic &l : r.links)
    links.push_back({{"axis", l.axis},
                     {"level", l.level},
                     {"steps", l.collectives},
                     {"bytes_of_rank", l.bytesOfRank},
                     {"bytes", l.bytes}});
  for (const RankClass &c : r.classes)
    classes.push_back({{"part", c.part},
                       {"first_rank", c.firstRank},
                       {"ranks", c.ranks},
                       {"compute_seconds", c.computeSeconds},
                       {"communication_seconds", c.communicationSeconds},
                       {"exposed_seconds", c.exposedSeconds},
                       {"idle_seconds", c.idleSeconds},
                       {"arena_bytes", c.arenaBytes}});
  Json j = {{"cluster", r.cluster},
            {"ranks", r.ranks},
            {"micro_batches", r.microBatches},
            {"step_seconds", r.stepSeconds},
            {"compute_seconds", r.computeSeconds},
            {"communication_seconds", r.communicationSeconds},
            {"exposed_seconds", r.exposedSeconds},
            {"bubble_fraction", r.bubbleFraction},
            {"peak_memory_bytes", r.peakMemoryBytes},
            {"memory_bytes", r.memoryBytes},
            {"fits", r.fits()},
            {"links", std::move(links)},
            {"rank_classes", std::move(classes)}};
  if (r.exactBytes()) j["bytes_sent"] = r.bytesSent;
  return j;
}

} // namespace opc::cli
