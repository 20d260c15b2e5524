// Everything about a graph on one page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphDrawing.h"
#include "GraphFinding.h"
#include "PageTimeline.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

struct GraphPage {
  const GraphFacts &facts;
  std::string name; // of the file
  NodeMarks marks = {};
  std::vector<PageTimeline> timelines = {};
  std::optional<std::vector<GraphFinding>> findings = {}; // of checks, where some were made
  std::string checkedAgainst = {};                        // the lock
  bool showsTimes = false;                                // of the compiler's phases, which differ from run to run
  struct Part {
    std::string id, label, body;
  };
  std::vector<Part> first = {}; // stand before all others
};

/// Parts for the summary, the graph, its ops with their costs, and what is known besides: memory, timeline, states and
/// transitions, tasks, phases, checks.
std::string graphHtml(const GraphPage &page);

/// Rule, severity, what it is about, message, place.
std::string findingsTable(const std::vector<GraphFinding> &findings);

} // namespace opc::cli
