// What became of each op when regions were formed, and why.
// SPDX-License-Identifier: Apache-2.0
#include "AttrBridge.h"
#include "Graph.h"
#include "Locations.h"
#include "LoopGraph.h"
#include "OpcDialect.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace opc {
namespace {

FusionFacts::Region regionFact(const LoopGraph &g, const std::vector<uint32_t> &members) {
  FusionFacts::Region fact;
  ValueSet in, out;
  g.tensors(members, [&](uint32_t op) { return std::binary_search(members.begin(), members.end(), op); }, &in, &out);
  fact.bytesMoved = bytesOf(out);
  for (Value v : in) fact.bytesMoved += g.bytesRead(v, members);
  for (uint32_t m : members) {
    Operation *op = g.ops[m];
    fact.ops.push_back(ir::opName(op));
    for (Value v : ValueSet(op->operand_begin(), op->operand_end())) fact.bytesSaved += g.bytesRead(v, m);
    for (Value v : op->getResults()) fact.bytesSaved += ir::bytesOf(v);
  }
  fact.bytesSaved -= fact.bytesMoved;
  return fact;
}

} // namespace

void describeRegions(const LoopGraph &g, const std::vector<RegionJoin> &joins, const std::vector<uint32_t> &regions,
                     const std::map<std::pair<uint32_t, uint32_t>, FusionReason> &refused, FusionFacts *facts) {
  std::vector<uint32_t> regionOf(g.ops.size());
  for (uint32_t op = 0; op < g.ops.size(); ++op) regionOf[op] = op;
  for (uint32_t r : regions) {
    const std::vector<uint32_t> &members = joins[r].members;
    if (members.size() < 2) continue;
    for (uint32_t m : members) regionOf[m] = r;
    facts->regions.push_back(regionFact(g, members));
  }
  // What was found when the two were to be joined; where nothing was, they were, and the peak has undone it.
  const auto reasonBetween = [&](uint32_t producer, uint32_t op) {
    if (const auto it = refused.find({producer, op}); it != refused.end()) return it->second;
    const LoopKey both = together(g.keys[producer], g.keys[op]);
    return both ? FusionReason::kPeak : both.reason;
  };
  std::vector<std::set<FusionReason>> reasons(g.ops.size());
  for (uint32_t op = 0; op < g.ops.size(); ++op) {
    if (!g.keys[op]) {
      reasons[op].insert(g.keys[op].reason);
      continue;
    }
    for (Value v : ValueSet(g.ops[op]->operand_begin(), g.ops[op]->operand_end())) {
      const auto p = g.loopThatMakes(v);
      if (!p || regionOf[*p] == regionOf[op]) continue;
      const FusionReason reason = reasonBetween(*p, op);
      facts->boundaries.push_back({ir::opName(g.ops[*p]), ir::opName(g.ops[op]), ir::tensorName(v), reason});
      reasons[*p].insert(reason);
      reasons[op].insert(reason);
    }
  }
  for (uint32_t op = 0; op < g.ops.size(); ++op) {
    auto user = dyn_cast<ir::UserOp>(g.ops[op]);
    if (!user || regionOf[op] != op) continue;
    if (reasons[op].empty()) reasons[op].insert(FusionReason::kNoNeighbour);
    facts->alone.push_back({ir::opName(user), user.getOpType().str(), {reasons[op].begin(), reasons[op].end()}});
  }
}

} // namespace opc
