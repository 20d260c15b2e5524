// Every transition between states as ops.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingInsertion.h"
#include "AttrBridge.h"
#include "Graph.h"
#include "GraphCosts.h"
#include "GraphStates.h"
#include "Locations.h"
#include "MeshPrices.h"
#include "SplitSoftmax.h"
#include "SplitUpdate.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

#include <map>
#include <tuple>

using namespace mlir;

namespace opc {
namespace {

/// Where and in which state a tensor is at hand.
struct Version {
  uint32_t placement;
  NdSbp states;
  Value value;
};

class Inserter {
public:
  Inserter(ModuleOp module, const MeshRequest &request)
      : block_(graphBlock(module)), request_(request), prices_(pricesOf(request)), placements_(readPlacements(module)),
        builder_(module.getContext()) {}

  void run() {
    SmallVector<Operation *> producers;
    for (Operation &op : block_) producers.push_back(&op);
    for (Operation *op : producers)
      for (OpResult r : op->getResults()) serve(r);
  }

private:
  void serve(OpResult r) {
    Operation *op = r.getOwner();
    const uint32_t placement = placementOf(op);
    const NdSbp made = states_.ofResult(r);
    struct Reader {
      OpOperand *operand;
      NdSbp wanted;
      uint32_t placement;
    };
    SmallVector<Reader> readers;
    for (OpOperand &use : r.getUses()) {
      if (isa<ir::BoxingOp>(use.getOwner())) continue; // of a composite: it takes the state that is made
      const uint32_t p = placementOf(use.getOwner());
      const NdSbp &wanted = states_.of(use.getOwner())[use.getOperandNumber()];
      if (p != placement || wanted != made) readers.push_back({&use, wanted, p});
    }
    if (readers.empty()) return;
    // Uses are listed last first; the graph's order decides what is made first.
    llvm::sort(readers, [](const Reader &a, const Reader &b) {
      Operation *x = a.operand->getOwner(), *y = b.operand->getOwner();
      if (x != y) return x->isBeforeInBlock(y);
      return a.operand->getOperandNumber() < b.operand->getOperandNumber();
    });
    builder_.setInsertionPointAfter(op);
    versions_ = {{placement, made, r}};
    if (auto copies = op->getAttrOfType<ArrayAttr>(ir::kCopiesAttr))
      for (Attribute a : cast<ArrayAttr>(copies[r.getResultNumber()])) provide(placement, statesOf(a), r);
    if (auto transfers = op->getAttrOfType<ArrayAttr>(ir::kTransfersAttr))
      for (Attribute a : transfers) {
        auto entry = cast<ArrayAttr>(a);
        if (cast<IntegerAttr>(entry[0]).getInt() == static_cast<int64_t>(r.getResultNumber()))
          provide(static_cast<uint32_t>(cast<IntegerAttr>(entry[1]).getInt()), statesOf(entry[2]), r);
      }
    for (const Reader &reader : readers) reader.operand->set(provide(reader.placement, reader.wanted, r));
  }

  Value find(uint32_t placement, const NdSbp &states) const {
    for (const Version &v : versions_)
      if (v.placement == placement && v.states == states) return v.value;
    return {};
  }

  Value provide(uint32_t placement, const NdSbp &wanted, OpResult r) {
    if (Value v = find(placement, wanted)) return v;
    const user_op::TensorDesc desc = ir::descOf(r.getType());
    // The cheapest version to begin with; on another placement only when there is none here.
    std::vector<BoxingOp> best;
    Value from;
    double least = 0;
    const bool isHere = llvm::any_of(versions_, [&](const Version &v) { return v.placement == placement; });
    for (const Version &v : versions_) {
      if (isHere != (v.placement == placement)) continue;
      const Placement &source = placements_[v.placement];
      const MeshLinks there = prices_.linksOf(v.placement, placement), here = prices_.linksOf(placement, v.placement);
      std::vector<BoxingOp> path =
          boxingPath(desc.shape(), desc.data_type(), v.states, source, wanted, placements_[placement], there, here);
      double seconds = 0;
      for (const BoxingOp &s : path) seconds += boxingSeconds(s, s.source == source ? there : here);
      if (from && seconds >= least) continue;
      best = std::move(path);
      from = v.value;
      least = seconds;
    }
    uint32_t at = llvm::find_if(versions_, [&](const Version &v) { return v.value == from; })->placement;
    Value value = from;
    for (const BoxingOp &step : best) {
      const uint32_t next = step.step.kind == BoxingKind::kExchange ? placement : at;
      if (Value known = find(next, step.step.to)) {
        value = known;
      } else {
        value = makeStep(step.step, value, at, next, r);
        versions_.push_back({next, step.step.to, value});
      }
      at = next;
    }
    return value;
  }

  /// What goes from stage to stage has a channel for each direction: a stage that waits for its neighbour on one is not
  /// kept from sending on the other.
  int32_t channelBetween(uint32_t source, uint32_t target) const {
    if (request_.microBatches <= 1 || source == target || source == 0 || target == 0) return 0;
    return source < target ? 2 : 3;
  }

  Value makeStep(const BoxingStep &step, Value in, uint32_t source, uint32_t target, OpResult r) {
    ir::OpLocation location = ir::readLocation(r.getOwner()->getLoc());
    location.name = ir::tensorName(r) + "->" + toString(step.to);
    if (target != placementOf(r.getOwner())) location.name += "@" + std::to_string(target);
    location.tensors = {location.name};
    location.conf.clear();
    auto op = ir::BoxingOp::create(
        builder_, ir::makeLocation(builder_.getContext(), location), TypeRange(r.getType()), ValueRange(in),
        builder_.getStringAttr(boxingKindName(step.kind)), builder_.getI32IntegerAttr(step.meshDim),
        builder_.getStringAttr(step.reduction == BoxingReduction::kMax ? "max" : "sum"),
        stateList(builder_.getContext(), step.from), stateList(builder_.getContext(), step.to),
        builder_.getI32IntegerAttr(static_cast<int32_t>(source)),
        builder_.getI32IntegerAttr(static_cast<int32_t>(target)),
        builder_.getI32IntegerAttr(channelBetween(source, target)));
    if (target) op->setAttr(ir::kPlacementAttr, builder_.getI32IntegerAttr(static_cast<int32_t>(target)));
    return op.getOuts()[0];
  }

  Block &block_;
  const MeshRequest &request_;
  const MeshPrices &prices_;
  const std::vector<Placement> placements_;
  OpBuilder builder_;
  GraphStates states_;
  SmallVector<Version> versions_;
};

/// Joins reductions that may wait into buckets on a channel of their own.
class Buckets {
public:
  Buckets(ModuleOp module, const MeshRequest &request)
      : block_(graphBlock(module)), request_(request), placements_(readPlacements(module)) {}

  void run() {
    const HeavyOps heavy(block_);
    llvm::DenseMap<Operation *, unsigned> level; // boxings aside on the way to an op
    std::map<BucketKey, Bucket> open;
    std::vector<Bucket> done;
    for (Operation &op : block_) {
      unsigned depth = 0;
      for (Value v : op.getOperands())
        if (Operation *d = v.getDefiningOp()) depth = std::max(depth, level.lookup(d));
      auto boxing = dyn_cast<ir::BoxingOp>(&op);
      if (boxing && isReduction(boxing) && mayWait(heavy, boxing)) {
        const BucketKey key{boxing.getKind().str(),
                            boxing.getReduction().str(),
                            boxing.getMeshDim(),
                            boxing.getSource(),
                            boxing.getTarget(),
                            depth,
                            ir::descOf(op.getOperand(0).getType()).data_type()};
        Bucket &bucket = open[key];
        const BoxingOp b = boxingOf(boxing, 0, placements_);
        const Box box = localBox(b.shape, b.step.from, b.source.dims, 0);
        const uint64_t bytes = static_cast<uint64_t>(box.elements()) * GetSizeOfDataType(b.type);
        if (!bucket.members.empty() && bucket.bytes + bytes > request_.bucketBytes) {
          done.push_back(std::move(bucket));
          bucket = Bucket();
        }
        bucket.members.push_back(boxing);
        bucket.bytes += bytes;
        ++depth;
      }
      if (depth) level[&op] = depth;
    }
    for (auto &[key, bucket] : open) done.push_back(std::move(bucket));
    for (Bucket &b : done) join(b);
    if (!done.empty()) sortTopologically(&block_);
  }

private:
  /// What the members of a bucket have in common: kind, reduction, mesh dimension, source, target, level, dtype. A
  /// joined step has one of each.
  using BucketKey = std::tuple<std::string, std::string, int64_t, int64_t, int64_t, unsigned, DataType>;
  struct Bucket {
    SmallVector<ir::BoxingOp> members;
    uint64_t bytes = 0;
  };

  static bool isReduction(ir::BoxingOp op) { return op.getKind() == "all_reduce" || op.getKind() == "reduce_scatter"; }
  /// A step in a chain waits when its last one does.
  bool mayWait(const HeavyOps &heavy, ir::BoxingOp op) const {
    return heavy.isBeforeLastHeavy(op) && !heavy.leadsToHeavy(op);
  }

  void join(Bucket &bucket) {
    OpBuilder b(bucket.members.back());
    SmallVector<Value> operands;
    SmallVector<Type> types;
    SmallVector<Attribute> from, to;
    ir::OpLocation location = ir::readLocation(bucket.members.front()->getLoc());
    location.tensors.clear();
    for (ir::BoxingOp m : bucket.members) {
      operands.push_back(m.getArgs()[0]);
      types.push_back(m.getOuts()[0].getType());
      from.push_back(m.getFrom()[0]);
      to.push_back(m.getTo()[0]);
      location.tensors.push_back(ir::tensorName(m.getOuts()[0]));
    }
    ir::BoxingOp first = bucket.members.front();
    if (bucket.members.size() > 1) location.name += " and " + std::to_string(bucket.members.size() - 1) + " more";
    auto joined =
        ir::BoxingOp::create(b, ir::makeLocation(b.getContext(), location), types, operands, first.getKindAttr(),
                             first.getMeshDimAttr(), first.getReductionAttr(), b.getArrayAttr(from), b.getArrayAttr(to),
                             first.getSourceAttr(), first.getTargetAttr(), b.getI32IntegerAttr(1));
    if (Attribute p = first->getAttr(ir::kPlacementAttr)) joined->setAttr(ir::kPlacementAttr, p);
    for (auto [i, m] : llvm::enumerate(bucket.members)) {
      m.getOuts()[0].replaceAllUsesWith(joined.getOuts()[i]);
      m.erase();
    }
  }

  Block &block_;
  const MeshRequest &request_;
  const std::vector<Placement> placements_;
};

} // namespace

BoxingOp boxingOf(ir::BoxingOp op, unsigned i, const std::vector<Placement> &placements) {
  const user_op::TensorDesc desc = ir::descOf(op.getArgs()[i].getType());
  const auto reduction = op.getReduction() == "max" ? BoxingReduction::kMax : BoxingReduction::kSum;
  return {{*parseBoxingKind(op.getKind().str()), static_cast<int32_t>(op.getMeshDim()), statesOf(op.getFrom()[i]),
           statesOf(op.getTo()[i]), reduction},
          desc.shape(),
          desc.data_type(),
          placements[static_cast<size_t>(op.getSource())],
          placements[static_cast<size_t>(op.getTarget())]};
}

LogicalResult insertBoxing(ModuleOp module, const MeshRequest &request) {
  expandSplitClasses(module);
  expandSplitUpdates(module);
  Inserter(module, request).run();
  if (request.overlap && request.bucketBytes) Buckets(module, request).run();
  return success();
}

void numberBoxings(ModuleOp module) {
  Builder b(module.getContext());
  int64_t order = 0;
  for (Operation &op : graphBlock(module))
    if (isa<ir::BoxingOp>(op)) op.setAttr(ir::kOrderAttr, b.getI64IntegerAttr(order++));
}

} // namespace opc
