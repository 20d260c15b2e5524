// What a cluster's numbers mean: seconds of an op, links of a mesh.
// SPDX-License-Identifier: Apache-2.0
#include "Cluster.h"

#include <algorithm>

namespace opc::simulate {

double coreShare(const ClusterDescription &cluster, int64_t devices) {
  if (cluster.coresPerHost <= 0 || devices <= 0) return 1;
  const auto share = [&](int64_t d) { return std::min(1.0, cluster.coresPerHost / static_cast<double>(d)); };
  return share(devices) / share(cluster.devicesPerHost);
}

double opSeconds(const ClusterDescription &cluster, const std::string &op, const OpCost &cost, DataType type,
                 int64_t devices) {
  const double share = coreShare(cluster, devices);
  // Matrix units and their types are for contractions; everything else computes in f32's rate. The width: operations
  // for each element moved.
  double rate = cluster.flops.at(kFloat);
  if (cost.contraction) {
    const auto typed = cluster.flops.find(type);
    if (typed != cluster.flops.end()) rate = typed->second;
    const auto size = static_cast<double>(std::max<size_t>(1, GetSizeOfDataType(type)));
    const double width = cost.bytes > 0 ? cost.flops * size / cost.bytes : 1e9;
    rate *= std::max(1e-9, cluster.efficiency.peak * width / (width + cluster.efficiency.halfWidth));
  }
  const double model = std::max(cost.flops / rate, cost.bytes / cluster.memoryBandwidth) / share;
  const auto measured = cluster.ops.find(op);
  if (measured == cluster.ops.end()) return cluster.taskOverhead / share + model;
  return measured->second.overhead / share + measured->second.factor * model;
}

Result<std::vector<PlacementLink>> placementLinks(const ClusterDescription &cluster, const Placement &placement) {
  const auto fail = [&](std::string message, std::string help) {
    return Status(StatusCode::kUsage, "OPC0744", std::move(message)).withHelp(std::move(help));
  };
  const int64_t devices = cluster.levels.back().devices;
  for (int64_t r : placement.ranks)
    if (r >= devices)
      return fail("the plan is for rank " + std::to_string(r) + ", the cluster '" + cluster.name + "' has " +
                      std::to_string(devices) + " devices",
                  "make the last level larger, or the mesh smaller");
  if (!cluster.axes.empty() && cluster.axes.size() != placement.dims.size())
    return fail(
        "the cluster '" + cluster.name + "' has axes for a mesh of " + std::to_string(cluster.axes.size()) +
            " dimensions, the plan's placement is " + placement.toString(),
        "give one level for each dimension, or leave `axes` out: then ranks that are near use the inner levels");
  const auto rankAt = [&](int64_t position) { return placement.ranks[static_cast<size_t>(position)]; };
  const auto byDistance = [&](const std::vector<int64_t> &positions) {
    for (const NetworkLevel &level : cluster.levels) {
      const int64_t unit = rankAt(positions[0]) / level.devices;
      if (std::all_of(positions.begin(), positions.end(), [&](int64_t p) { return rankAt(p) / level.devices == unit; }))
        return &level;
    }
    return &cluster.levels.back();
  };
  const auto linkAt = [&](const NetworkLevel *level, const std::vector<int64_t> &positions) {
    PlacementLink link;
    link.level = level;
    if (level == &cluster.levels.front()) return link;
    link.inner = level - 1;
    const int64_t unit = rankAt(positions[0]) / link.inner->devices;
    link.together = std::count_if(positions.begin(), positions.end(),
                                  [&](int64_t p) { return rankAt(p) / link.inner->devices == unit; });
    return link;
  };
  std::vector<PlacementLink> result;
  for (size_t dim = 0; dim < placement.dims.size(); ++dim) {
    if (!cluster.axes.empty()) {
      const auto named = std::find_if(cluster.levels.begin(), cluster.levels.end(),
                                      [&](const NetworkLevel &l) { return l.name == cluster.axes[dim]; });
      result.push_back(linkAt(&*named, placement.group(0, static_cast<int64_t>(dim))));
      continue;
    }
    // A step ends when its slowest group does: the outermost level that any group needs.
    PlacementLink worst = linkAt(&cluster.levels.front(), {0});
    for (int64_t p = 0; p < placement.size(); ++p) {
      if (placement.coordinates(p)[dim] != 0) continue;
      const std::vector<int64_t> group = placement.group(p, static_cast<int64_t>(dim));
      const NetworkLevel *level = byDistance(group);
      if (level > worst.level) worst = linkAt(level, group); // levels are in one vector, ascending
    }
    result.push_back(worst);
  }
  std::vector<int64_t> all(static_cast<size_t>(placement.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  result.push_back(linkAt(byDistance(all), all));
  return result;
}

Link linkOf(const PlacementLink &link, BoxingKind kind) {
  const auto of = [&](const NetworkLevel &level) {
    const auto measured = level.collectives.find(kind);
    Link l = measured != level.collectives.end() ? measured->second : level.link;
    l.bandwidth /= static_cast<double>(level.sharedBy);
    return l;
  };
  Link result = of(*link.level);
  const bool ring =
      kind == BoxingKind::kAllReduce || kind == BoxingKind::kAllGather || kind == BoxingKind::kReduceScatter;
  if (ring && link.inner && link.together > 1)
    result.bandwidth = std::max(
        result.bandwidth, std::min(of(*link.inner).bandwidth, result.bandwidth * static_cast<double>(link.together)));
  return result;
}

Result<MeshLinks> meshLinks(const ClusterDescription &cluster, const Placement &placement) {
  OPC_ASSIGN_OR_RETURN(std::vector<PlacementLink> found, placementLinks(cluster, placement));
  MeshLinks links;
  for (const PlacementLink &link : found) links.dims.push_back(linkOf(link, BoxingKind::kAllReduce));
  links.dims.pop_back();
  links.between = linkOf(found.back(), BoxingKind::kExchange);
  return links;
}

} // namespace opc::simulate
