// Seconds and bytes of the tasks of a plan on a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Cluster.h"
#include "Registry.h"
#include "plan.pb.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opc::simulate {

/// A boxing task in terms of kernels/sharding: one op for each of its tensors.
struct BoxingTask {
  std::vector<BoxingOp> ops;
  uint32_t source = 0, target = 0; // placements
  bool travels = false;            // bytes go between ranks
};

class PlanPrices {
public:
  /// All of them must outlive this.
  PlanPrices(const plan::Plan &plan, const Registry &registry, const ClusterDescription &cluster);

  /// Reads the placements and finds their levels. OPC0744, OPC0745.
  Status readPlacements();
  const std::vector<Placement> &placements() const { return placements_; }

  /// Checks that the indices of a part are in range. OPC0745.
  Status check(const plan::Plan &part, uint32_t index) const;
  /// Seconds of a task that is not boxing. OPC0201, OPC0745.
  Result<double> computeSeconds(const plan::Plan &part, const plan::Task &task);
  /// What a boxing task does. OPC0745.
  Result<BoxingTask> boxingTask(const plan::Plan &part, const plan::Task &task) const;
  double seconds(const BoxingTask &task) const;
  /// Bytes that a rank sends in one run of a task.
  uint64_t bytesOf(const BoxingTask &task, int64_t rank) const;
  /// The mesh dimension and the network level that a task uses: "axis 0 of 2x4", "nvlink".
  std::pair<std::string, std::string> linkName(const BoxingTask &task) const;

private:
  /// What joins the devices of two placements.
  PlacementLink between(uint32_t source, uint32_t target) const;
  /// Seconds of one run of a task's graphs, of branches of the one that takes longer.
  Result<double> graphSeconds(const plan::Task &task);
  Status bad(const std::string &message) const;

  const plan::Plan &plan_;
  const Registry &registry_;
  const ClusterDescription &cluster_;
  DeviceSpeed device_;
  std::vector<Placement> placements_; // the first is the mesh, the others are parts of it
  struct Links {
    std::vector<PlacementLink> levels;
    MeshLinks links;
    RankLevels::Span span;
  };
  std::vector<Links> links_; // by placement
  std::optional<RankLevels> levels_;
  std::map<std::string, double> prices_; // equal tasks are priced once
};

} // namespace opc::simulate
