// The order of a plan's tasks on all ranks at once, as the simulation of a step sees it.
// SPDX-License-Identifier: Apache-2.0
#include "PlanFinish.h"

#include "Graph.h"
#include "GraphStates.h"
#include "Locations.h"
#include "PlanFile.h"
#include "Simulation.h"
#include "TextParts.h"

using namespace mlir;

namespace opc {
namespace {

/// Forward ops that no stage names and that read from none.
std::string wayOut(ModuleOp logical) {
  constexpr size_t kMost = 6;
  std::vector<std::string> names;
  for (Operation &op : graphBlock(logical))
    if (isa<ir::UserOp>(&op) && ir::roleOf(&op) == ir::Role::kForward && placementOf(&op) == 0)
      names.push_back(ir::opName(&op));
  if (names.empty()) return "name this op, and those that read its result, in the --stage of those that it reads from";
  const bool isMore = names.size() > kMost;
  if (isMore) names.resize(kMost);
  return "name these ops, which are on all ranks, in a --stage: " + joined(names, ", ") + (isMore ? ", ..." : "");
}

} // namespace

bool checkFinishes(const std::string &planBytes, ModuleOp logical, const Registry &registry, const std::string &file,
                   std::vector<Diagnostic> *findings) {
  const Result<plan::Plan> plan = decodePlan(planBytes);
  const Status s = plan ? simulate::checkFinishes(*plan, registry) : plan.status();
  if (s) return true;
  Diagnostic d;
  d.code = s.id();
  d.message = s.message();
  if (!s.context().empty()) d.message += ", among them " + s.context();
  d.help = wayOut(logical);
  d.range.file = file;
  findings->push_back(std::move(d));
  return false;
}

} // namespace opc
