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

DeviceSpeed deviceSpeed(const ClusterDescription &cluster, int64_t devices) {
  const double share = coreShare(cluster, devices);
  DeviceSpeed speed;
  speed.flops = cluster.flops.at(kFloat) * share;
  for (const auto &[type, flops] : cluster.flops) speed.byType[type] = flops * share;
  speed.efficiency = cluster.efficiency;
  speed.memoryBandwidth = cluster.memoryBandwidth * share;
  speed.taskSeconds = cluster.taskOverhead / share;
  for (const auto &[op, measured] : cluster.ops) speed.ops[op] = {measured.overhead / share, measured.factor};
  return speed;
}

double opSeconds(const ClusterDescription &cluster, const std::string &op, const OpCost &cost, DataType type,
                 int64_t devices) {
  return opSeconds(deviceSpeed(cluster, devices), op, cost, type);
}

RankLevels::RankLevels(const ClusterDescription &cluster, const Placement &mesh) : cluster_(cluster) {
  for (const std::string &axis : cluster.axes)
    axes_.push_back(&*std::find_if(cluster.levels.begin(), cluster.levels.end(),
                                   [&](const NetworkLevel &l) { return l.name == axis; }));
  for (int64_t p = 0; p < mesh.size() && !axes_.empty(); ++p) {
    const auto rank = static_cast<size_t>(mesh.ranks[static_cast<size_t>(p)]);
    if (rank >= coordinates_.size()) coordinates_.resize(rank + 1);
    coordinates_[rank] = mesh.coordinates(p);
  }
}

RankLevels::Span RankLevels::Span::operator|(const Span &o) const {
  Span all = *this;
  for (size_t i = 0; i < all.least.size(); ++i) {
    all.least[i] = std::min(all.least[i], o.least[i]);
    all.most[i] = std::max(all.most[i], o.most[i]);
  }
  return all;
}

RankLevels::Span RankLevels::spanOf(const std::vector<int64_t> &ranks) const {
  Span all;
  for (int64_t rank : ranks) {
    const auto r = static_cast<size_t>(rank);
    std::vector<int64_t> at{rank};
    if (!axes_.empty()) at = r < coordinates_.size() ? coordinates_[r] : std::vector<int64_t>();
    at.resize(std::max<size_t>(1, axes_.size()), -1); // of a rank that is not on the mesh
    const Span one{at, at};
    all = all.least.empty() ? one : all | one;
  }
  return all;
}

const NetworkLevel *RankLevels::levelOf(const Span &span) const {
  if (axes_.empty()) {
    for (const NetworkLevel &level : cluster_.levels)
      if (span.least[0] / level.devices == span.most[0] / level.devices) return &level;
    return &cluster_.levels.back();
  }
  const NetworkLevel *level = &cluster_.levels.front();
  for (size_t m = 0; m < axes_.size(); ++m)
    if (span.least[m] != span.most[m]) level = std::max(level, axes_[m]); // in one vector, ascending
  return level;
}

Result<std::vector<PlacementLink>> placementLinks(const ClusterDescription &cluster, const Placement &placement,
                                                  const Placement *mesh) {
  if (!mesh) mesh = &placement;
  const auto fail = [&](std::string message, std::string help) {
    return Status(StatusCode::kUsage, "OPC0744", std::move(message)).withHelp(std::move(help));
  };
  const int64_t devices = cluster.levels.back().devices;
  for (int64_t r : placement.ranks)
    if (r >= devices)
      return fail("the plan is for rank " + std::to_string(r) + ", the cluster '" + cluster.name + "' has " +
                      std::to_string(devices) + " devices",
                  "make the last level larger, or the mesh smaller");
  if (!cluster.axes.empty() && cluster.axes.size() != mesh->dims.size())
    return fail(
        "the cluster '" + cluster.name + "' has axes for a mesh of " + std::to_string(cluster.axes.size()) +
            " dimensions, the plan's mesh is " + mesh->toString(),
        "give one level for each dimension, or leave `axes` out: then ranks that are near use the inner levels");
  const RankLevels levels(cluster, *mesh);
  const auto linkAt = [&](const NetworkLevel *level, const std::vector<int64_t> &ranks) {
    PlacementLink link;
    link.level = level;
    if (level == &cluster.levels.front()) return link;
    link.inner = level - 1;
    const int64_t unit = ranks[0] / link.inner->devices;
    link.together =
        std::count_if(ranks.begin(), ranks.end(), [&](int64_t r) { return r / link.inner->devices == unit; });
    return link;
  };
  std::vector<PlacementLink> result;
  for (size_t dim = 0; dim < placement.dims.size(); ++dim) {
    // A step ends when its slowest group does: the outermost level that any group needs.
    PlacementLink worst = linkAt(&cluster.levels.front(), {});
    for (int64_t p = 0; p < placement.size(); ++p) {
      if (placement.coordinates(p)[dim] != 0) continue;
      std::vector<int64_t> group = placement.group(p, static_cast<int64_t>(dim));
      for (int64_t &rank : group) rank = placement.ranks[static_cast<size_t>(rank)];
      const NetworkLevel *level = levels.levelOf(levels.spanOf(group));
      if (level > worst.level) worst = linkAt(level, group); // levels are in one vector, ascending
    }
    result.push_back(worst);
  }
  result.push_back(linkAt(levels.levelOf(levels.spanOf(placement.ranks)), placement.ranks));
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

MeshLinks meshLinks(const std::vector<PlacementLink> &found) {
  MeshLinks links;
  for (size_t dim = 0; dim + 1 < found.size(); ++dim) {
    links.dims.push_back(linkOf(found[dim], BoxingKind::kAllReduce));
    std::map<BoxingKind, Link> &kinds = links.kinds.emplace_back();
    for (BoxingKind kind : {BoxingKind::kAllGather, BoxingKind::kAllToAll, BoxingKind::kReduceScatter,
                            BoxingKind::kAllReduce, BoxingKind::kExchange})
      kinds[kind] = linkOf(found[dim], kind);
  }
  links.between = linkOf(found.back(), BoxingKind::kExchange);
  return links;
}

Result<MeshLinks> meshLinks(const ClusterDescription &cluster, const Placement &placement, const Placement *mesh) {
  OPC_ASSIGN_OR_RETURN(const std::vector<PlacementLink> found, placementLinks(cluster, placement, mesh));
  return meshLinks(found);
}

} // namespace opc::simulate
