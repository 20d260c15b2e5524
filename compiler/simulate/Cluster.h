// What a plan would run on: how fast devices compute, how fast they exchange, how much they hold. Read from a file,
// written by a calibration (docs/simulation.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"
#include "DeviceSpeed.h"
#include "opc/Status.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace opc::simulate {

/// One level of the network: units of `devices` consecutive ranks whose members reach each other over it.
struct NetworkLevel {
  std::string name;
  int64_t devices = 0;
  Link link;                              // of a device that has it to itself
  int64_t sharedBy = 1;                   // devices that share one link's bandwidth
  std::map<BoxingKind, Link> collectives; // measured ones, in place of `link`
};

struct ClusterDescription {
  std::string name;
  std::map<DataType, double> flops; // operations a second of a device; f32 is always there
  Efficiency efficiency;
  double memoryBandwidth = 0; // bytes a second of a device
  uint64_t memoryBytes = 0;   // of a device
  double taskOverhead = 0;    // seconds that every task costs before it does anything
  std::map<std::string, MeasuredOp> ops;
  /// The rates above hold when `devicesPerHost` devices of a host are at work. With others, devices share the cores.
  int64_t devicesPerHost = 1;
  double coresPerHost = 0;          // 0: every device has its own
  std::vector<NetworkLevel> levels; // ascending; a job has at most as many devices as the last
  std::vector<std::string> axes;    // names of levels by mesh dimension; empty: by the ranks' distance
};

/// Reads the JSON of a cluster file. `name` stands in errors. OPC0740 not JSON, OPC0741 a field that is missing,
/// unknown, given twice or of another type, OPC0742 a value out of range, OPC0743 levels or axes that contradict each
/// other.
Result<ClusterDescription> parseCluster(std::string_view text, const std::string &name);
/// The same as JSON text, which parseCluster reads back to the same description.
std::string clusterText(const ClusterDescription &cluster);

/// Seconds of an op with these costs on one device, when `devices` devices share its host (0: as many as the file
/// says).
double opSeconds(const ClusterDescription &cluster, const std::string &op, const OpCost &cost, DataType type,
                 int64_t devices = 0);
/// The same rates and prices for an op after the other: of a device, when `devices` share its host (0: as many as the
/// file says).
DeviceSpeed deviceSpeed(const ClusterDescription &cluster, int64_t devices = 0);
/// The share of its rates that a device keeps when `devices` of them work on a host: 1 for devices with cores of their
/// own.
double coreShare(const ClusterDescription &cluster, int64_t devices);

/// What the groups of one mesh dimension use: the level that joins their ranks, the one inside it, and how many ranks
/// of a group share a unit of the inner one.
struct PlacementLink {
  const NetworkLevel *level = nullptr, *inner = nullptr; // inner: null for the innermost level
  int64_t together = 1;
};

/// Which level joins ranks: the innermost one of whose units has all of them; with `axes` the outermost of those of the
/// mesh dimensions in which the ranks differ.
class RankLevels {
public:
  /// `mesh`: what `axes` are of. Both must outlive this.
  RankLevels(const ClusterDescription &cluster, const Placement &mesh);

  /// Of some ranks: the least and the largest coordinates on the mesh; without `axes` the numbers of the ranks.
  struct Span {
    std::vector<int64_t> least, most;
    Span operator|(const Span &o) const; // of the ranks of both
  };
  Span spanOf(const std::vector<int64_t> &ranks) const;
  const NetworkLevel *levelOf(const Span &span) const;

private:
  const ClusterDescription &cluster_;
  std::vector<const NetworkLevel *> axes_;        // by mesh dimension; empty: by distance
  std::vector<std::vector<int64_t>> coordinates_; // with axes_, by rank
};

/// By mesh dimension, and at the end what joins all ranks of the placement. `mesh` is the one that `axes` are of and
/// the placement is a part of; null: the placement itself. OPC0744 when the cluster has too few devices, or `axes` for
/// another mesh.
Result<std::vector<PlacementLink>> placementLinks(const ClusterDescription &cluster, const Placement &placement,
                                                  const Placement *mesh = nullptr);
/// The link for one kind of step, with what sharing leaves of the bandwidth. Rings (all-gather, reduce-scatter,
/// all-reduce) that have several ranks in a unit go out over the links of all of them, up to the inner level's
/// bandwidth.
Link linkOf(const PlacementLink &link, BoxingKind kind);
/// The links of a placement, of each kind of step, for boxingSeconds. Errors as placementLinks.
Result<MeshLinks> meshLinks(const ClusterDescription &cluster, const Placement &placement,
                            const Placement *mesh = nullptr);
MeshLinks meshLinks(const std::vector<PlacementLink> &links);

} // namespace opc::simulate
