// What has been decided about states and transitions, for people.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingInsertion.h"
#include "Graph.h"
#include "GraphCosts.h"
#include "GraphStates.h"
#include "Locations.h"
#include "MeshPrices.h"

using namespace mlir;

namespace opc {

void describeMesh(ModuleOp module, const MeshRequest &request, MeshFacts *report) {
  GraphStates states;
  report->placements = readPlacements(module);
  report->stages = std::max<int64_t>(1, static_cast<int64_t>(request.stages.size()));
  report->microBatches = request.microBatches;
  for (Operation &op : graphBlock(module)) {
    if (auto boxing = dyn_cast<ir::BoxingOp>(&op)) {
      MeshFacts::Transition t;
      t.kind = boxing.getKind().str();
      t.meshDim = static_cast<int32_t>(boxing.getMeshDim());
      t.channel = static_cast<uint32_t>(boxing.getChannel());
      t.source = static_cast<uint32_t>(boxing.getSource());
      t.target = static_cast<uint32_t>(boxing.getTarget());
      t.from = toString(statesOf(boxing.getFrom()[0]));
      t.to = toString(statesOf(boxing.getTo()[0]));
      const MeshLinks links = pricesOf(request).linksOf(t.source, t.target);
      for (unsigned i = 0; i < boxing.getArgs().size(); ++i) {
        Value v = boxing.getArgs()[i];
        t.tensors.push_back(ir::tensorName(v));
        const BoxingOp b = boxingOf(boxing, i, report->placements);
        t.seconds += boxingSeconds(b, links);
        // Everybody sends the same but for uneven splits, where the first ranks have most.
        int64_t most = 0;
        for (size_t r = 0; r < b.source.ranks.size() && r < 64; ++r)
          most = std::max(most, bytesSent(b, b.source.ranks[r]));
        t.bytes += most;
      }
      report->transitions.push_back(std::move(t));
      continue;
    }
    auto user = dyn_cast<ir::UserOp>(&op);
    const std::vector<NdSbp> &s = states.of(&op);
    if (op.hasTrait<OpTrait::IsTerminator>() || s.empty()) continue;
    MeshFacts::Op o;
    o.name = ir::opName(&op);
    o.type = user ? user.getOpType().str() : op.getName().stripDialect().str();
    o.placement = placementOf(&op);
    auto list = [&](size_t begin, size_t end) {
      std::string text;
      for (size_t i = begin; i < end; ++i) text += (i > begin ? ", " : "") + toString(s[i]);
      return "(" + text + ")";
    };
    const size_t inputs = op.getNumOperands();
    o.signature =
        inputs == 0 ? list(0, s.size()) : list(0, inputs) + (s.size() > inputs ? " -> " + list(inputs, s.size()) : "");
    report->ops.push_back(std::move(o));
  }
}

} // namespace opc
