// Layers and the ops between them, computed for one part of the batch after the other: what a layer hands to the next
// then stays in the cache (docs/adr/0026-a-batch-in-parts.md).
// SPDX-License-Identifier: Apache-2.0
#include "BatchWalk.h"

#include "AttrBridge.h"
#include "ControlOp.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphBuilder.h"
#include "GraphTexts.h"
#include "LibraryFusion.h"
#include "Locations.h"
#include "Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace opc {
namespace {

/// Writes the ops of a walk as an op of their own.
class PartsWriter {
public:
  PartsWriter(ModuleOp module, const Registry &registry, const BatchWalk &walk)
      : module_(module), registry_(registry), walk_(walk), last_(walk.ops.back()) {}

  LogicalResult run(const GraphTexts &texts) {
    findTensors();
    const std::string text = texts.write(last_, *partGraph());
    if (text.empty()) return failure();
    user_op::OpConf conf{ir::opName(last_), kPartsType, {}, {}, {}};
    std::vector<DataType> types;
    std::vector<Shape> shapes;
    for (Value v : outputs_) {
      types.push_back(ir::descOf(v).data_type());
      shapes.push_back(ir::descOf(v).shape());
    }
    conf.attrs = {{"graph", AttrValue(text)},
                  {"parts", AttrValue(walk_.parts)},
                  {"cut", AttrValue(static_cast<int64_t>(cut_))},
                  {"dtypes", AttrValue(types)},
                  {"shapes", AttrValue(shapes)}};
    conf.outputs = {user_op::ArgBinding{"out", std::vector<std::string>(outputs_.size())}};
    GraphBuilder build(module_, registry_);
    build.role = ir::Role::kForward;
    user_op::ArgBinding in{"in", {}};
    for (Value v : inputs_) in.tensors.push_back(build.nameOf(v));
    conf.inputs = {std::move(in)};
    ir::UserOp made;
    if (Status s = build.addOp(&conf, last_, &made); !s.isOk()) return emitStatus(last_, s), failure();
    replace(made);
    return success();
  }

private:
  bool isInside(Operation *op) const { return walk_.contains(op); }

  /// The inputs that are cut come first.
  void findTensors() {
    llvm::SmallSetVector<Value, 8> cut, whole, out;
    for (ir::UserOp op : walk_.ops) {
      for (Value v : op.getArgs())
        if (!isInside(v.getDefiningOp())) (isSameInAllParts(v) ? whole : cut).insert(v);
      for (Value v : op.getOuts())
        if (llvm::any_of(v.getUsers(), [&](Operation *user) { return !isInside(user); })) out.insert(v);
    }
    cut_ = cut.size();
    inputs_.assign(cut.begin(), cut.end());
    inputs_.insert(inputs_.end(), whole.begin(), whole.end());
    outputs_.assign(out.begin(), out.end());
  }

  /// The graph of one part: a copy of the whole one, of which only the ops of the walk are left.
  OwningOpRef<ModuleOp> partGraph() {
    IRMapping mapping;
    OwningOpRef<ModuleOp> part = cast<ModuleOp>(module_->clone(mapping));
    part->getOperation()->setDiscardableAttrs(DictionaryAttr::get(part->getContext()));
    llvm::SmallPtrSet<Operation *, 32> kept;
    for (ir::UserOp op : walk_.ops) {
      Operation *twin = mapping.lookup(op.getOperation());
      kept.insert(twin);
      keepPlace(twin);
      cast<ir::UserOp>(twin).setOpAttrsAttr(attrsOfPart(op, walk_.parts));
      for (Value v : twin->getResults()) v.setType(partType(v));
    }
    Block &block = graphBlock(*part);
    GraphBuilder build(*part, registry_);
    SmallVector<Operation *> made;
    for (auto [k, v] : llvm::enumerate(inputs_)) {
      Value twin = mapping.lookup(v);
      Value in = build.addInput("in" + std::to_string(k), k < cut_ ? partType(twin) : twin.getType());
      twin.replaceUsesWithIf(in, [&](OpOperand &use) { return kept.contains(use.getOwner()); });
      made.push_back(in.getDefiningOp());
    }
    for (Operation *in : llvm::reverse(made)) in->moveBefore(&block, block.begin());
    kept.insert(made.begin(), made.end());
    SmallVector<Operation *> rest;
    for (Operation &op : block)
      if (!op.hasTrait<OpTrait::IsTerminator>() && !kept.contains(&op)) rest.push_back(&op);
    for (Operation *op : llvm::reverse(rest)) op->dropAllUses();
    for (Operation *op : llvm::reverse(rest)) op->erase();
    GraphBuilder outputs(*part, registry_);
    for (auto [k, v] : llvm::enumerate(outputs_)) outputs.addOutput("out" + std::to_string(k), mapping.lookup(v));
    return part;
  }

  /// The text of a part has lines of its own: where an op stands in the graph's file is said beside it. An op of a
  /// model says so already.
  static void keepPlace(Operation *op) {
    ir::OpLocation place = ir::readLocation(op->getLoc());
    if (place.line == 0 || place.place.isKnown()) return;
    place.place = {llvm::sys::path::filename(place.file).str(), place.line, place.column, ""};
    op->setLoc(ir::makeLocation(op->getContext(), place));
  }

  Type partType(Value v) const { return ir::tensorType(v.getContext(), partOf(ir::descOf(v), walk_.parts)); }

  /// Results keep their names, and the op has that of the last one that it computes.
  void replace(ir::UserOp made) {
    made->moveAfter(last_);
    ir::OpLocation parts = ir::readLocation(last_.getLoc());
    parts.tensors.clear();
    for (Value v : outputs_) parts.tensors.push_back(ir::tensorName(v));
    for (auto [from, to] : llvm::zip(outputs_, made.getOuts())) {
      from.replaceUsesWithIf(to, [&](OpOperand &use) { return !isInside(use.getOwner()); });
      for (Operation *user : llvm::make_early_inc_range(to.getUsers()))
        if (user->isBeforeInBlock(made)) user->moveAfter(made); // an output of the graph
    }
    made->setLoc(ir::makeLocation(made.getContext(), parts));
    for (ir::UserOp op : llvm::reverse(walk_.ops)) op.erase();
  }

  ModuleOp module_;
  const Registry &registry_;
  const BatchWalk &walk_;
  ir::UserOp last_;
  std::vector<Value> inputs_, outputs_;
  size_t cut_ = 0;
};

} // namespace

#define GEN_PASS_DEF_CUTBATCHES
#include "Passes.h.inc"

namespace {

struct CutBatchesPass : impl::CutBatchesBase<CutBatchesPass> {
  CutBatchesPass() = default;
  CutBatchesPass(std::shared_ptr<const GraphTexts> texts, std::vector<FusionFacts::Parts> *facts)
      : texts(std::move(texts)), facts(facts) {}
  void runOnGraph() override {
    if (trains(getOperation())) return;
    const Registry &registry = registryOf(&getContext());
    for (const BatchWalk &walk : findWalks(graphBlock(getOperation()))) {
      if (!texts) {
        ir::UserOp op = walk.ops.back();
        emitFinding(op.getLoc(), "OPC0416", "op " + ir::opName(op) + ": nobody writes its graph here",
                    "run the pass in a pipeline, or compile with --no-fuse");
        return signalPassFailure();
      }
      if (facts) facts->push_back(factOf(walk));
      if (failed(PartsWriter(getOperation(), registry, walk).run(*texts))) return signalPassFailure();
    }
  }

  static FusionFacts::Parts factOf(const BatchWalk &walk) {
    FusionFacts::Parts fact{ir::opName(walk.ops.back()), {}, walk.parts, 0};
    for (ir::UserOp op : walk.ops) {
      fact.ops.push_back(ir::opName(op));
      for (Value v : op.getOuts())
        if (llvm::all_of(v.getUsers(), [&](Operation *user) { return walk.contains(user); }))
          fact.bytesSaved += 2 * ir::bytesOf(v);
    }
    return fact;
  }

  std::shared_ptr<const GraphTexts> texts; // shared: a pass can be cloned
  std::vector<FusionFacts::Parts> *facts = nullptr;
};

} // namespace

std::unique_ptr<Pass> createCutBatches(std::shared_ptr<const GraphTexts> texts,
                                       std::vector<FusionFacts::Parts> *facts) {
  return std::make_unique<CutBatchesPass>(std::move(texts), facts);
}

} // namespace opc
