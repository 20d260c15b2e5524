// States that the user has decided.
// SPDX-License-Identifier: Apache-2.0
#include "StatePins.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphStates.h"
#include "Locations.h"
#include "NearestNames.h"

#include <fnmatch.h>

using namespace mlir;

namespace opc {

StatePins::StatePins(ModuleOp module, const MeshRequest &request)
    : module_(module), request_(request), used_(request.pins.size(), false) {}

LogicalResult StatePins::check() {
  bool ok = true;
  // A stage has dimensions of its own; of the op that is named only its own placement's count.
  const auto isOfStage = [](const SbpPin &pin, const StagePlacement &s) {
    return pin.states.size() == s.placement.dims.size();
  };
  for (const SbpPin &pin : request_.pins)
    if (pin.states.size() != request_.dims.size() &&
        llvm::none_of(request_.stages, [&](const StagePlacement &s) { return isOfStage(pin, s); })) {
      emitRequestFinding(module_.getLoc(), "OPC0311",
                         "--sbp " + pin.text + " has " + std::to_string(pin.states.size()) + " states, the mesh has " +
                             std::to_string(request_.dims.size()) + " dimensions",
                         "write one state for each dimension of the mesh, e.g. [S(0), B]");
      ok = false;
    }
  for (Operation &op : graphBlock(module_)) {
    auto hints = op.getAttrOfType<ArrayAttr>(ir::kHintsAttr);
    if (!hints) continue;
    const size_t meshRank = readPlacements(module_)[placementOf(&op)].dims.size();
    for (Attribute a : hints) {
      if (isa<UnitAttr>(a)) continue;
      auto state = dyn_cast<ir::StateAttr>(a);
      // Files of one device say B of everything, whatever mesh they meet.
      if (state && (state.getCodes().size() == meshRank || isBroadcast(state.getStates()))) continue;
      ok = false;
      emitFinding(op.getLoc(), "OPC0311",
                  "the graph asks for the state '" + (state ? toString(state.getStates()) : cast<StringAttr>(a).str()) +
                      "'" +
                      (state ? " of one mesh dimension for each entry; the mesh has " + std::to_string(meshRank)
                             : ", which is none"),
                  "write one state for each dimension of the mesh, e.g. [S(0), B], or take the hint out");
    }
  }
  return success(ok);
}

StatePins::OpPins StatePins::of(Operation *op) {
  OpPins pins;
  auto add = [&](unsigned slot, const NdSbp &states, const std::string &text) {
    for (auto &[s, known] : pins.states)
      if (s == slot) {
        known = states; // what is asked for comes after the file
        pins.text += "; " + text;
        return;
      }
    pins.states.push_back({slot, states});
    pins.text += (pins.text.empty() ? "" : "; ") + text;
  };
  if (auto hints = op->getAttrOfType<ArrayAttr>(ir::kHintsAttr))
    for (auto [slot, a] : llvm::enumerate(hints))
      if (auto state = dyn_cast<ir::StateAttr>(a))
        add(static_cast<unsigned>(slot), state.getStates(), "the graph's hint " + toString(state.getStates()));
  for (size_t p = 0; p < request_.pins.size(); ++p) {
    const SbpPin &pin = request_.pins[p];
    auto matches = [&](const std::string &name) {
      return pin.glob == name || fnmatch(pin.glob.c_str(), name.c_str(), 0) == 0;
    };
    const std::string text = "--sbp " + pin.text;
    if (isa<ir::OutputOp>(op) && matches(ir::opName(op))) {
      add(0, pin.states, text);
      used_[p] = pins.isAsked = true;
    }
    for (OpResult r : op->getResults())
      if (matches(ir::tensorName(r)) || (op->getNumResults() == 1 && matches(ir::opName(op)))) {
        add(op->getNumOperands() + r.getResultNumber(), pin.states, text);
        used_[p] = pins.isAsked = true;
      }
  }
  return pins;
}

LogicalResult StatePins::checkUsed() {
  bool ok = true;
  for (size_t p = 0; p < used_.size(); ++p) {
    if (used_[p]) continue;
    std::vector<std::string> names;
    for (Operation &op : graphBlock(module_)) {
      if (names.size() > 20000) break;
      if (isa<ir::OutputOp>(op)) names.push_back(ir::opName(&op));
      for (Value v : op.getResults()) names.push_back(ir::tensorName(v));
    }
    emitRequestFinding(module_.getLoc(), "OPC0311",
                       "--sbp " + request_.pins[p].text + " names no tensor or op of the graph",
                       didYouMean(request_.pins[p].glob, names, "opc show GRAPH --what tensors lists them"));
    ok = false;
  }
  return success(ok);
}

} // namespace opc
