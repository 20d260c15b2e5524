// The graphs that ranks run.
// SPDX-License-Identifier: Apache-2.0
#include "PhysicalGraph.h"
#include "Graph.h"
#include "GraphStates.h"
#include "RankModules.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

#include <map>

using namespace mlir;

namespace opc {
namespace {

class PhysicalBuilder {
public:
  PhysicalBuilder(ModuleOp module, int64_t ranks)
      : module_(module), block_(graphBlock(module)), placements_(readPlacements(module)), ranks_(ranks),
        builder_(module.getContext()) {}

  PhysicalGraphs run() {
    collectKinds();
    PhysicalGraphs graphs;
    std::map<std::vector<int64_t>, uint32_t> known;
    // Ranks at the same place of every placement's splits have the same pieces; most meshes have few such classes.
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const auto [it, fresh] = known.try_emplace(shapesOf(rank), static_cast<uint32_t>(known.size()));
      if (fresh) graphs.parts.push_back(build(rank));
      graphs.partOfRank.push_back(it->second);
    }
    return graphs;
  }

private:
  /// A tensor's type with its state and placement: what its pieces' shapes depend on.
  struct Kind {
    RankedTensorType type;
    NdSbp states;
    uint32_t placement;
  };

  uint32_t kind(Type type, const NdSbp &states, uint32_t placement) {
    std::string key = toString(states) + "@" + std::to_string(placement);
    auto &byState = kinds_[type];
    for (const auto &[text, index] : byState)
      if (text == key) return index;
    byState.push_back({std::move(key), static_cast<uint32_t>(list_.size())});
    list_.push_back({cast<RankedTensorType>(type), states, placement});
    MLIRContext *context = builder_.getContext();
    shardings_.push_back(
        ir::ShardingAttr::get(context, placement, ir::StateAttr::get(context, states), list_.back().type.getShape()));
    return static_cast<uint32_t>(list_.size() - 1);
  }

  void collectKinds() {
    for (Operation &op : block_) {
      if (op.hasTrait<OpTrait::IsTerminator>()) continue;
      SmallVector<uint32_t> &slots = slots_[&op];
      if (auto boxing = dyn_cast<ir::BoxingOp>(&op)) {
        for (auto [v, s] : llvm::zip(boxing.getArgs(), boxing.getFrom()))
          slots.push_back(kind(v.getType(), statesOf(s), static_cast<uint32_t>(boxing.getSource())));
        for (auto [v, s] : llvm::zip(boxing.getOuts(), boxing.getTo()))
          slots.push_back(kind(v.getType(), statesOf(s), static_cast<uint32_t>(boxing.getTarget())));
        continue;
      }
      const uint32_t placement = placementOf(&op);
      const std::vector<NdSbp> &states = states_.of(&op);
      size_t at = 0;
      for (Type t : op.getOperandTypes()) slots.push_back(kind(t, states[at++], placement));
      for (Type t : op.getResultTypes()) slots.push_back(kind(t, states[at++], placement));
    }
  }

  /// Dimensions of all kinds' pieces on a rank; -1 where it has none.
  std::vector<int64_t> shapesOf(int64_t rank) const {
    std::vector<int64_t> dims;
    std::vector<std::optional<int64_t>> positions;
    for (const Placement &p : placements_) positions.push_back(p.positionOf(rank));
    for (const Kind &k : list_) {
      const auto &position = positions[k.placement];
      if (!position) {
        dims.push_back(-1);
        continue;
      }
      dims.push_back(0); // it has one, whole where no dimensions follow
      if (!isBroadcast(k.states))
        for (int64_t d : localShape(Shape(DimVector(k.type.getShape().begin(), k.type.getShape().end())), k.states,
                                    placements_[k.placement].dims, *position))
          dims.push_back(d);
    }
    return dims;
  }

  OwningOpRef<ModuleOp> build(int64_t rank) {
    std::vector<std::optional<int64_t>> positions;
    for (const Placement &p : placements_) positions.push_back(p.positionOf(rank));
    SmallVector<Type> types;
    for (const Kind &k : list_) {
      const auto &position = positions[k.placement];
      if (!position) {
        types.push_back({});
        continue;
      }
      const Shape shape = localShape(Shape(DimVector(k.type.getShape().begin(), k.type.getShape().end())), k.states,
                                     placements_[k.placement].dims, *position);
      types.push_back(RankedTensorType::get(SmallVector<int64_t>(shape.begin(), shape.end()), k.type.getElementType()));
    }
    OwningOpRef<ModuleOp> part = ModuleOp::create(builder_.getUnknownLoc());
    (*part)->setAttrs(module_->getAttrDictionary());
    auto logical = *module_.getOps<func::FuncOp>().begin();
    OpBuilder b(part->getBodyRegion());
    auto function = func::FuncOp::create(b, logical.getLoc(), logical.getName(), logical.getFunctionType());
    b.setInsertionPointToEnd(function.addEntryBlock());
    IRMapping mapping;
    auto isHere = [&](uint32_t placement) { return positions[placement].has_value(); };
    for (Operation &op : block_) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        b.clone(op, mapping);
        continue;
      }
      const SmallVector<uint32_t> &slots = slots_[&op];
      if (auto boxing = dyn_cast<ir::BoxingOp>(&op)) {
        cloneBoxing(b, boxing, slots, types, isHere(static_cast<uint32_t>(boxing.getSource())),
                    isHere(static_cast<uint32_t>(boxing.getTarget())), mapping);
        continue;
      }
      if (!isHere(placementOf(&op))) continue;
      Operation *copy = b.clone(op, mapping);
      annotate(copy, slots);
      for (OpResult r : copy->getResults()) r.setType(types[slots[copy->getNumOperands() + r.getResultNumber()]]);
    }
    return part;
  }

  void annotate(Operation *copy, ArrayRef<uint32_t> slots) {
    copy->removeAttr(ir::kStatesAttr);
    if (copy->removeAttr(ir::kLocalAttr)) return;
    SmallVector<Attribute> list;
    for (uint32_t s : slots) list.push_back(shardings_[s]);
    copy->setAttr(ir::kShardingAttr, builder_.getArrayAttr(list));
  }

  void cloneBoxing(OpBuilder &b, ir::BoxingOp op, ArrayRef<uint32_t> slots, ArrayRef<Type> types, bool sends,
                   bool receives, IRMapping &mapping) {
    if (!sends && !receives) return;
    SmallVector<Value> operands;
    SmallVector<Type> results;
    if (sends)
      for (Value v : op.getArgs()) operands.push_back(mapping.lookup(v));
    if (receives)
      for (uint32_t s : slots.drop_front(op.getArgs().size())) results.push_back(types[s]);
    auto copy = ir::BoxingOp::create(b, op.getLoc(), results, operands, op.getKindAttr(), op.getMeshDimAttr(),
                                     op.getReductionAttr(), op.getFrom(), op.getTo(), op.getSourceAttr(),
                                     op.getTargetAttr(), op.getChannelAttr());
    for (NamedAttribute a : op->getDiscardableAttrs()) copy->setAttr(a.getName(), a.getValue());
    if (!receives) { // this rank keeps the source's pace
      copy->removeAttr(ir::kLagAttr);
      if (Attribute lag = op->getAttr(ir::kSourceLagAttr)) copy->setAttr(ir::kLagAttr, lag);
    }
    copy->removeAttr(ir::kSourceLagAttr);
    annotate(copy, slots);
    for (auto [from, to] : llvm::zip(op.getOuts(), copy.getOuts())) mapping.map(from, to);
  }

  ModuleOp module_;
  Block &block_;
  const std::vector<Placement> placements_;
  const int64_t ranks_;
  Builder builder_;
  GraphStates states_;
  std::vector<Kind> list_;
  SmallVector<Attribute> shardings_; // by kind
  llvm::DenseMap<Type, SmallVector<std::pair<std::string, uint32_t>, 2>> kinds_;
  llvm::DenseMap<Operation *, SmallVector<uint32_t>> slots_; // kinds of operands, then results
};

} // namespace

PhysicalGraphs makePhysicalGraphs(ModuleOp module, int64_t ranks) { return PhysicalBuilder(module, ranks).run(); }

void putBeside(ModuleOp module, PhysicalGraphs graphs) {
  std::vector<SmallVector<int32_t>> ranks(graphs.parts.size());
  for (auto [rank, part] : llvm::enumerate(graphs.partOfRank)) ranks[part].push_back(static_cast<int32_t>(rank));
  for (auto [part, list] : llvm::zip(graphs.parts, ranks)) {
    (*part)->setAttr(ir::kRanksAttr, DenseI32ArrayAttr::get(module.getContext(), list));
    module.push_back(part.release());
  }
}

PhysicalGraphs takePhysicalGraphs(ModuleOp module) {
  PhysicalGraphs graphs;
  for (auto part : llvm::make_early_inc_range(module.getOps<ModuleOp>())) {
    for (int32_t rank : part->getAttrOfType<DenseI32ArrayAttr>(ir::kRanksAttr).asArrayRef()) {
      graphs.partOfRank.resize(std::max<size_t>(graphs.partOfRank.size(), static_cast<size_t>(rank) + 1));
      graphs.partOfRank[static_cast<size_t>(rank)] = static_cast<uint32_t>(graphs.parts.size());
    }
    part->remove();
    graphs.parts.emplace_back(part);
  }
  return graphs;
}

} // namespace opc
