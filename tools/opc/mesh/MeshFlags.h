// The flags that plan a graph for several devices, and what was planned as text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Cluster.h"
#include "CommandLine.h"
#include "GraphFacts.h"
#include "JsonOutput.h"
#include "MeshRequest.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

class MeshFlags {
public:
  std::vector<Option> options();
  /// Whether --sbp or --stage name something of the graph.
  bool namesTensors() const { return !pins_.empty() || !stages_.empty(); }
  /// Nothing without --mesh (unless `defaultDims` says what it is by default); then the other flags are usage errors.
  bool hasCluster() const { return !cluster_.empty(); }
  /// The first of the flags that say how a mesh is planned for, beside --mesh itself; "" for none.
  std::string planning() const;
  const std::string &clusterFile() const { return cluster_; }
  /// Leaves out the cluster's `axes` of dimensions of one device, as request() leaves these out of the mesh.
  void fitAxes(simulate::ClusterDescription *cluster) const;
  Result<std::optional<MeshRequest>> request(const std::vector<int64_t> &defaultDims = {}) const;

private:
  std::vector<int64_t> mesh_;
  std::string cluster_;
  std::optional<uint64_t> deviceMemory_, random_;
  std::optional<int64_t> microBatches_;
  std::vector<SbpPin> pins_;
  std::vector<StagePlacement> stages_;
  bool noOverlap_ = false;
};

/// Plans with the speeds and the memory of a cluster. Errors: those of simulate::meshLinks.
Status useCluster(const simulate::ClusterDescription &cluster, MeshRequest *request);

std::string sbpText(const MeshFacts &report, size_t width = 0);
Json sbpJson(const MeshFacts &report);
/// The transitions alone, largest first, at most `limit`.
std::string boxingText(const MeshFacts &report, size_t limit = SIZE_MAX, size_t width = 0);

} // namespace opc::cli
