// A simulated step as a trace for chrome://tracing and Perfetto.
// SPDX-License-Identifier: Apache-2.0
#include "Simulation.h"

#include <nlohmann/json.hpp>

namespace opc::simulate {

std::string traceJson(const SimulationReport &report) {
  using Json = nlohmann::ordered_json;
  Json events = Json::array();
  for (uint32_t c = 0; c < report.classes.size(); ++c) {
    const RankClass &k = report.classes[c];
    std::string name = "rank " + std::to_string(k.firstRank);
    if (k.ranks > 1) name += " and " + std::to_string(k.ranks - 1) + " like it";
    events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", c}, {"tid", 0}, {"args", {{"name", name}}}});
  }
  for (size_t i = 0; i < report.events.size(); ++i) {
    const SimulatedEvent &e = report.events[i];
    events.push_back({{"ph", "X"},
                      {"name", report.eventNames[i]},
                      {"cat", "task"},
                      {"pid", e.rankClass},
                      {"tid", e.stream},
                      {"ts", e.begin * 1e6},
                      {"dur", (e.end - e.begin) * 1e6},
                      {"args", {{"step", e.step}}}});
  }
  return Json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false,
                                                                                  Json::error_handler_t::replace) +
         "\n";
}

} // namespace opc::simulate
