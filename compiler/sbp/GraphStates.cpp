// The states that ops of a logical graph carry.
// SPDX-License-Identifier: Apache-2.0
#include "GraphStates.h"

using namespace mlir;

namespace opc {

std::vector<Placement> readPlacements(ModuleOp module) {
  std::vector<Placement> placements;
  if (auto list = module->getAttrOfType<ArrayAttr>(ir::kPlacementsAttr))
    for (Attribute a : list) {
      auto pair = cast<ArrayAttr>(a);
      Placement p;
      llvm::append_range(p.dims, cast<DenseI64ArrayAttr>(pair[0]).asArrayRef());
      llvm::append_range(p.ranks, cast<DenseI64ArrayAttr>(pair[1]).asArrayRef());
      placements.push_back(std::move(p));
    }
  return placements;
}

void writePlacements(ModuleOp module, const std::vector<Placement> &placements) {
  Builder b(module.getContext());
  SmallVector<Attribute> list;
  for (const Placement &p : placements)
    list.push_back(b.getArrayAttr({b.getDenseI64ArrayAttr(p.dims), b.getDenseI64ArrayAttr(p.ranks)}));
  module->setAttr(ir::kPlacementsAttr, b.getArrayAttr(list));
}

const std::vector<NdSbp> &GraphStates::parse(ArrayAttr attr) {
  auto [it, fresh] = parsed_.try_emplace(attr);
  if (fresh)
    for (Attribute a : attr) it->second.push_back(parseNdSbp(cast<StringAttr>(a).str()).value_or(NdSbp()));
  return it->second;
}

const std::vector<NdSbp> &GraphStates::of(Operation *op) {
  if (auto attr = op->getAttrOfType<ArrayAttr>(ir::kStatesAttr)) return parse(attr);
  return none_;
}

const NdSbp &GraphStates::ofResult(OpResult value) {
  Operation *op = value.getOwner();
  if (auto boxing = dyn_cast<ir::BoxingOp>(op)) return parse(boxing.getTo())[value.getResultNumber()];
  return of(op)[op->getNumOperands() + value.getResultNumber()];
}

} // namespace opc
