// A planned timeline and the findings of checks for a page.
// SPDX-License-Identifier: Apache-2.0
#include "GraphReport.h"

#include "GraphCheck.h"
#include "GraphLint.h"
#include "LockFile.h"
#include "SimulationReport.h"

#include <filesystem>
#include <optional>

namespace opc::cli {

Status addTimeline(Invocation &invocation, const Registry &registry, const MeshFlags &mesh, const std::string &plan,
                   GraphPage *page) {
  std::optional<simulate::ClusterDescription> cluster;
  if (mesh.hasCluster()) {
    OPC_ASSIGN_OR_RETURN(cluster, readClusterFile(mesh.clusterFile()));
    mesh.fitAxes(&*cluster);
  }
  Result<PageTimeline> timeline = plannedTimeline(plan, registry, cluster ? &*cluster : nullptr);
  if (timeline)
    page->timelines.push_back(std::move(*timeline));
  else
    invocation.note("note: there is no planned timeline: " + timeline.status().message());
  return Status::ok();
}

void addFindings(const Registry &registry, const std::string &path, GraphPage *page) {
  std::error_code error;
  const std::string lock = path.empty() ? "" : lockPathOf(path);
  if (lock.empty() || !std::filesystem::exists(lock, error)) {
    page->findings = lintGraph(page->facts);
    return;
  }
  CheckSettings settings;
  settings.runs = false;
  settings.use = RuleCategory::kExact;
  page->findings = checkGraph(registry, settings, path).report.findings;
  page->checkedAgainst = lock;
}

} // namespace opc::cli
