// The states that ops of a logical graph carry.
// SPDX-License-Identifier: Apache-2.0
#include "GraphStates.h"

using namespace mlir;

namespace opc {

std::vector<Placement> readPlacements(ModuleOp module) {
  std::vector<Placement> placements;
  if (auto list = module->getAttrOfType<ArrayAttr>(ir::kPlacementsAttr))
    for (Attribute a : list) {
      auto p = cast<ir::PlacementAttr>(a);
      placements.push_back({p.getDims().vec(), p.getRanks().vec()});
    }
  return placements;
}

void writePlacements(ModuleOp module, const std::vector<Placement> &placements) {
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> list;
  for (const Placement &p : placements) list.push_back(ir::PlacementAttr::get(context, p.dims, p.ranks));
  module->setAttr(ir::kPlacementsAttr, ArrayAttr::get(context, list));
}

ArrayAttr stateList(MLIRContext *context, ArrayRef<NdSbp> states) {
  SmallVector<Attribute> list;
  for (const NdSbp &s : states) list.push_back(ir::StateAttr::get(context, s));
  return ArrayAttr::get(context, list);
}

const std::vector<NdSbp> &GraphStates::read(ArrayAttr attr) {
  auto [it, fresh] = known_.try_emplace(attr);
  if (fresh)
    for (auto state : attr.getAsRange<ir::StateAttr>()) it->second.push_back(state.getStates());
  return it->second;
}

const std::vector<NdSbp> &GraphStates::of(Operation *op) {
  if (auto attr = op->getAttrOfType<ArrayAttr>(ir::kStatesAttr)) return read(attr);
  return none_;
}

const NdSbp &GraphStates::ofResult(OpResult value) {
  Operation *op = value.getOwner();
  if (auto boxing = dyn_cast<ir::BoxingOp>(op)) return read(boxing.getTo())[value.getResultNumber()];
  return of(op)[op->getNumOperands() + value.getResultNumber()];
}

} // namespace opc
