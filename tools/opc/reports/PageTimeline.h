// What runs when, as a page shows it: planned by simulation, or measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Cluster.h"
#include "Registry.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

struct PageTimeline {
  struct Span {
    uint32_t lane = 0;
    std::string op; // of the graph; or of a step between ranks
    double begin = 0, seconds = 0;
    bool communicates = false;
  };
  std::string title, note;
  bool measured = false;
  std::vector<std::string> lanes;
  std::vector<Span> spans; // by lane, then begin
};

/// One step of a plan (the bytes of its file) on the cluster, or, without one, on devices as the planner takes them
/// when nobody says what they are. Always the same for the same plan. Errors: those of simulate().
Result<PageTimeline> plannedTimeline(std::string_view planFile, const Registry &registry,
                                     const simulate::ClusterDescription *cluster);

/// Sorts the spans as pages want them.
void sortSpans(PageTimeline *timeline);

} // namespace opc::cli
