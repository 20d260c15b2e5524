// One step of a plan as a timeline, by simulation.
// SPDX-License-Identifier: Apache-2.0
#include "PageTimeline.h"

#include "DeviceSpeed.h"
#include "NumberText.h"
#include "PlanFile.h"
#include "PlanSizes.h"
#include "Simulation.h"
#include "TextParts.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace opc::cli {

namespace {

constexpr size_t kMostSpans = 20000;
constexpr int64_t kAnyDevices = 1 << 20;

simulate::ClusterDescription defaultCluster() {
  const DeviceSpeed device;
  simulate::ClusterDescription c;
  c.name = "devices of " + roundedText(device.flops / 1e9, 3) + " Gflop/s and " +
           roundedText(device.memoryBandwidth / 1e9, 3) + " GB/s";
  c.flops[kFloat] = device.flops;
  c.memoryBandwidth = device.memoryBandwidth;
  c.taskOverhead = device.taskSeconds;
  simulate::NetworkLevel level;
  level.name = "links";
  level.devices = kAnyDevices;
  c.levels.push_back(level);
  return c;
}

} // namespace

void sortSpans(PageTimeline *timeline) {
  const auto key = [](const PageTimeline::Span &s) { return std::make_tuple(s.lane, s.begin, s.begin + s.seconds); };
  std::stable_sort(timeline->spans.begin(), timeline->spans.end(),
                   [&](const auto &a, const auto &b) { return key(a) < key(b); });
}

Result<PageTimeline> plannedTimeline(std::string_view planFile, const Registry &registry,
                                     const simulate::ClusterDescription *cluster) {
  OPC_ASSIGN_OR_RETURN(plan::Plan plan, decodePlan(planFile));
  fixSizes(&plan, largestSizes(plan));
  const simulate::ClusterDescription standard = defaultCluster();
  simulate::SimulationOptions options;
  options.trace = true;
  options.maxEvents = kMostSpans;
  OPC_ASSIGN_OR_RETURN(const simulate::SimulationReport report,
                       simulate::simulate(plan, registry, cluster ? *cluster : standard, options));
  PageTimeline timeline;
  timeline.title = "Planned";
  timeline.note = concat("One step simulated on ", report.cluster, ": ", secondsText(report.stepSeconds),
                         cluster ? "" : "; --cluster FILE says what the devices are");
  if (report.eventsCut) timeline.note += concat("; the first ", kMostSpans, " tasks");
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> lanes;
  for (const simulate::SimulatedEvent &e : report.events) lanes[{e.rankClass, e.stream}] = 0;
  for (auto &[where, lane] : lanes) {
    lane = static_cast<uint32_t>(timeline.lanes.size());
    const simulate::RankClass &c = report.classes[where.first];
    std::string name;
    if (report.ranks > 1) name = concat("rank ", c.firstRank, c.ranks > 1 ? concat(" (+", c.ranks - 1, ")") : "", " ");
    timeline.lanes.push_back(concat(name, "stream ", where.second));
  }
  for (size_t i = 0; i < report.events.size(); ++i) {
    const simulate::SimulatedEvent &e = report.events[i];
    const uint32_t part = report.classes[e.rankClass].part;
    const plan::Plan &of = plan.part_size() ? plan.part(static_cast<int>(part)) : plan;
    timeline.spans.push_back({lanes[{e.rankClass, e.stream}], report.eventNames[i], e.begin, e.end - e.begin,
                              of.task(static_cast<int>(e.task)).has_boxing()});
  }
  sortSpans(&timeline);
  return timeline;
}

} // namespace opc::cli
