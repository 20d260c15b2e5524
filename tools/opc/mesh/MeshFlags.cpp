// The flags that plan a graph for several devices.
// SPDX-License-Identifier: Apache-2.0
#include "MeshFlags.h"

#include "Invocation.h"
#include "MeshPrices.h"
#include "MeshText.h"
#include "NumberText.h"
#include "OptionRanges.h"
#include "PlanFile.h"
#include "SimulationReport.h"

#include <algorithm>

namespace opc::cli {

static_assert(ranges::kMicroBatches.most == kMostSlots, "what is compiled can be run");

std::vector<Option> MeshFlags::options() {
  return {
      Option{"--mesh", 0, "2x4", "plan for a mesh of devices, outermost dimension first", into(&mesh_, parseMesh), true}
          .taking("dimensions like 4 or 2x4, at most 8 of them and 1,048,576 devices"),
      Option{"--sbp", 0, "GLOB=STATE",
             "fix the state of tensors, variables or outputs: fc*.w=S(0), 'x=[S(0), B]' (repeatable)",
             intoEach(&pins_, parsePin), true}
          .taking("GLOB=STATE", "states are S(0), B, P, or one for each dimension of the mesh: [S(0), B]"),
      Option{"--stage", 0, "GLOBS=RANKS", "the ranks of a pipeline stage's ops: 'emb*,layer0*=0-1' (repeatable)",
             intoEach(&stages_, parseStage), true}
          .taking("GLOBS=RANKS", "e.g. --stage 'layer0*,emb*=0-1'"),
      within({"--micro-batches", 0, "N", "run the graph N times a step, on a micro-batch each (pipelines)",
              &microBatches_, true},
             ranges::kMicroBatches),
      {"--cluster", 0, "FILE", "plan with the speeds and the memory of the devices that this JSON file describes",
       &cluster_, true},
      Option{"--device-memory", 0, "SIZE", "bytes that a device has: 16G", &deviceMemory_, true}.bytes("16G"),
      {"--no-overlap", 0, "", "reduce gradients in turn with the computation, each by itself", &noOverlap_},
      {"--sbp-random", 0, "SEED", "random legal signatures in place of the cheapest (for tests)", &random_, true},
  };
}

namespace {

/// Of a list with an entry for each mesh dimension those of more than one device; the first one where there are none.
template <class T> std::vector<T> withoutSingles(const std::vector<int64_t> &dims, const std::vector<T> &list) {
  std::vector<T> kept;
  for (size_t m = 0; m < dims.size(); ++m)
    if (dims[m] != 1) kept.push_back(list[m]);
  if (kept.empty()) kept.push_back(list[0]);
  return kept;
}

/// Mesh dimensions of one device cut nothing, and states on them mean nothing: 1x4 is 4.
void dropSingleDevices(MeshRequest *r) {
  const std::vector<int64_t> written = r->dims;
  if (written.size() < 2 || std::count(written.begin(), written.end(), 1) == 0) return;
  for (SbpPin &pin : r->pins)
    if (pin.states.size() == written.size()) pin.states = withoutSingles(written, pin.states);
  r->dims = withoutSingles(written, written);
}

} // namespace

void MeshFlags::fitAxes(simulate::ClusterDescription *cluster) const {
  if (!mesh_.empty() && cluster->axes.size() == mesh_.size()) cluster->axes = withoutSingles(mesh_, cluster->axes);
}

Status useCluster(const simulate::ClusterDescription &cluster, MeshRequest *request) {
  const Placement mesh = Placement::dense(request->dims);
  std::vector<const Placement *> placements{&mesh};
  for (const StagePlacement &stage : request->stages) placements.push_back(&stage.placement);
  const simulate::RankLevels levels(cluster, mesh);
  MeshPrices prices;
  std::vector<simulate::RankLevels::Span> spans;
  for (uint32_t i = 0; i < placements.size(); ++i) {
    OPC_ASSIGN_OR_RETURN(MeshLinks links, simulate::meshLinks(cluster, *placements[i], &mesh));
    prices.links.push_back(std::move(links));
    spans.push_back(levels.spanOf(placements[i]->ranks));
    for (uint32_t k = 0; k < i; ++k)
      prices.between[{k, i}] =
          simulate::linkOf({levels.levelOf(spans[k] | spans[i]), nullptr, 1}, BoxingKind::kExchange);
  }
  // As many devices of a host as the mesh has are at work, as in the simulation.
  prices.device = simulate::deviceSpeed(cluster, std::min(request->devices(), cluster.levels.front().devices));
  request->prices = std::make_shared<const MeshPrices>(std::move(prices));
  if (!request->deviceMemory) request->deviceMemory = cluster.memoryBytes;
  return Status::ok();
}

std::string MeshFlags::planning() const {
  return !pins_.empty()      ? "--sbp"
         : !stages_.empty()  ? "--stage"
         : microBatches_     ? "--micro-batches"
         : deviceMemory_     ? "--device-memory"
         : !cluster_.empty() ? "--cluster"
         : random_           ? "--sbp-random"
         : noOverlap_        ? "--no-overlap"
                             : "";
}

Result<std::optional<MeshRequest>> MeshFlags::request(const std::vector<int64_t> &defaultDims) const {
  if (mesh_.empty() && defaultDims.empty()) {
    const std::string given = planning();
    if (!given.empty()) return usageError(given + " is for several devices", "give --mesh, e.g. --mesh 2x4");
    return std::optional<MeshRequest>();
  }
  MeshRequest r;
  r.dims = mesh_.empty() ? defaultDims : mesh_;
  r.pins = pins_;
  r.stages = stages_;
  for (const StagePlacement &stage : stages_)
    for (int64_t rank : stage.placement.ranks)
      if (rank >= r.devices())
        return usageError("--stage of '" + stage.ops[0] + "' names rank " + std::to_string(rank) + ", the mesh has " +
                          std::to_string(r.devices()));
  dropSingleDevices(&r);
  if (r.dims.size() > 4)
    return usageError("--mesh has " + std::to_string(r.dims.size()) +
                          " dimensions of more than one device; states are planned on at most 4",
                      "join neighbouring dimensions: 2x2x2x2x2 as 4x2x4");
  r.microBatches = microBatches_.value_or(r.microBatches);
  r.deviceMemory = deviceMemory_.value_or(r.deviceMemory);
  if (random_) r.randomSeed = *random_;
  r.overlap = !noOverlap_;
  if (!cluster_.empty()) {
    OPC_ASSIGN_OR_RETURN(simulate::ClusterDescription cluster, readClusterFile(cluster_));
    fitAxes(&cluster);
    OPC_RETURN_IF_ERROR(useCluster(cluster, &r));
  }
  return std::optional<MeshRequest>(std::move(r));
}

} // namespace opc::cli
