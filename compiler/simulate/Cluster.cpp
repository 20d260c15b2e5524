// What a cluster's numbers mean: seconds of an op, links of a mesh.
#include "Cluster.h"

#include <algorithm>
#include <cmath>

namespace opc::simulate {

double coreShare(const ClusterDescription &cluster, int64_t devices) {
  if (cluster.coresPerHost <= 0 || devices <= 0) return 1;
  const auto share = [&](int64_t d) { return std::min(1.0, cluster.coresPerHost / static_cast<double>(d)); };
  return share(devices) / share(cluster.devicesPerHost);
}

double opSeconds(const ClusterDescription &cluster, const std::string &op, const OpCost &cost, DataType type,
                 int64_t devices) {
  const double share = coreShare(cluster, devices);
  const auto rate = cluster.flops.find(type);
  const double peak = rate != cluster.flops.end() ? rate->second : cluster.flops.at(kFloat);
  // Operations for each element moved; an op that moves nothing has nothing to wait for.
  const auto size = static_cast<double>(std::max<size_t>(1, GetSizeOfDataType(type)));
  const double width = cost.bytes > 0 ? cost.flops * size / cost.bytes : 1e9;
  const double efficiency = cluster.efficiency.peak * width / (width + cluster.efficiency.halfWidth);
  const double compute = cost.flops > 0 ? cost.flops / (peak * std::max(efficiency, 1e-9)) : 0;
  const double model = std::max(compute, cost.bytes / cluster.memoryBandwidth) / share;
  const auto measured = cluster.ops.find(op);
  if (measured == cluster.ops.end()) return cluster.taskOverhead / share + model;
  return measured->second.overhead / share + measured->second.factor * model;
}

Result<std::vector<const NetworkLevel *>> placementLevels(const ClusterDescription &cluster,
                                                          const Placement &placement) {
  const auto fail = [&](std::string message, std::string help) {
    return Status(StatusCode::kUsage, "OPC0744", std::move(message)).withHelp(std::move(help));
  };
  const int64_t devices = cluster.levels.back().devices;
  for (int64_t r : placement.ranks)
    if (r >= devices)
      return fail("the plan is for rank " + std::to_string(r) + ", the cluster '" + cluster.name + "' has " +
                      std::to_string(devices) + " devices",
                  "make the last level larger, or the mesh smaller");
  const auto byDistance = [&](const std::vector<int64_t> &positions) {
    for (const NetworkLevel &level : cluster.levels) {
      const int64_t unit = placement.ranks[static_cast<size_t>(positions[0])] / level.devices;
      if (std::all_of(positions.begin(), positions.end(),
                      [&](int64_t p) { return placement.ranks[static_cast<size_t>(p)] / level.devices == unit; }))
        return &level;
    }
    return &cluster.levels.back();
  };
  std::vector<const NetworkLevel *> result;
  if (!cluster.axes.empty()) {
    if (cluster.axes.size() != placement.dims.size())
      return fail(
          "the cluster '" + cluster.name + "' has axes for a mesh of " + std::to_string(cluster.axes.size()) +
              " dimensions, the plan's placement is " + placement.toString(),
          "give one level for each dimension, or leave `axes` out: then ranks that are near use the inner levels");
    for (const std::string &name : cluster.axes)
      result.push_back(&*std::find_if(cluster.levels.begin(), cluster.levels.end(),
                                      [&](const NetworkLevel &l) { return l.name == name; }));
  } else {
    // A step ends when its slowest group does: the outermost level that any group needs.
    for (size_t dim = 0; dim < placement.dims.size(); ++dim) {
      const NetworkLevel *worst = &cluster.levels.front();
      for (int64_t p = 0; p < placement.size(); ++p) {
        if (placement.coordinates(p)[dim] != 0) continue;
        const NetworkLevel *level = byDistance(placement.group(p, static_cast<int64_t>(dim)));
        if (level > worst) worst = level; // levels are in one vector, ascending
      }
      result.push_back(worst);
    }
  }
  std::vector<int64_t> all(static_cast<size_t>(placement.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  result.push_back(byDistance(all));
  return result;
}

Link linkOf(const NetworkLevel &level, BoxingKind kind) {
  const auto measured = level.collectives.find(kind);
  Link link = measured != level.collectives.end() ? measured->second : level.link;
  link.bandwidth /= static_cast<double>(level.sharedBy);
  return link;
}

Result<MeshLinks> meshLinks(const ClusterDescription &cluster, const Placement &placement) {
  Result<std::vector<const NetworkLevel *>> levels = placementLevels(cluster, placement);
  if (!levels) return levels.status();
  MeshLinks links;
  for (const NetworkLevel *level : *levels) {
    links.dims.push_back(level->link);
    links.dims.back().bandwidth /= static_cast<double>(level->sharedBy);
  }
  links.between = links.dims.back();
  links.dims.pop_back();
  return links;
}

} // namespace opc::simulate
