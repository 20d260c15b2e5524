// Graphs that would have one lock.
// SPDX-License-Identifier: Apache-2.0
#include "SharedLocks.h"

#include "CommandLine.h"
#include "GraphFiles.h"
#include "LockFile.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

const std::string kStandardInput = "-"; // has no lock

/// `group`: graphs of one lock.
GraphFinding findingOf(const std::string &graph, const std::vector<std::string> &group) {
  GraphFinding f;
  f.rule = "LOCK_SHARED";
  f.severity = Severity::kError;
  f.graph = graph;
  f.message = joined(group, " and ") + " would have one lock, " + lockPathOf(graph);
  const std::string &other = group[0] == graph ? group[1] : group[0];
  f.help = "give one of them another name, check one alone, or leave one out: --ignore " + shellQuoted(other + ":*");
  return f;
}

} // namespace

bool takeSharedLocks(const CheckSettings &settings, std::vector<std::string> *graphs, CheckReport *report) {
  std::map<std::string, std::vector<std::string>> byLock;
  for (const std::string &graph : *graphs)
    if (graph != kStandardInput) byLock[placeOfFile(lockPathOf(graph))].push_back(graph);
  std::set<std::string> taken;
  for (const auto &[lock, group] : byLock) {
    if (group.size() == 1) continue;
    const auto isMeant = [&](const std::string &g) { return isWanted(settings, findingOf(g, group)); };
    const bool isSettled = std::count_if(group.begin(), group.end(), isMeant) == 1;
    for (const std::string &graph : group) {
      if (isSettled && isMeant(graph)) continue; // the others leave the lock to it
      GraphReport shared;
      shared.graph = graph;
      if (isMeant(graph)) shared.findings.push_back(findingOf(graph, group));
      report->graphs.push_back(std::move(shared));
      taken.insert(graph);
    }
  }
  std::erase_if(*graphs, [&](const std::string &graph) { return taken.count(graph) > 0; });
  return !taken.empty();
}

} // namespace opc::cli
