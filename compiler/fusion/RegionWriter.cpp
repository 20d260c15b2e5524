// Groups of ops become opc.fused.
// SPDX-License-Identifier: Apache-2.0
#include "Graph.h"
#include "Locations.h"
#include "LoopGraph.h"
#include "OpcDialect.h"

#include "mlir/IR/IRMapping.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

void fuse(LoopGraph *g, const std::vector<uint32_t> &members) {
  llvm::SmallPtrSet<Operation *, 16> inside;
  bool byRows = false;
  for (uint32_t m : members) {
    inside.insert(g->ops[m]);
    byRows |= g->rows[m] != nullptr;
  }
  ValueSet in, out;
  g->tensors(members, [&](uint32_t op) { return std::binary_search(members.begin(), members.end(), op); }, &in, &out);
  Operation *last = g->ops[members.back()];
  OpBuilder b(last);
  ir::OpLocation place = ir::readLocation(last->getLoc());
  place.tensors.clear();
  place.conf.clear();
  for (Value v : out) place.tensors.push_back(ir::tensorName(v));
  SmallVector<Type> types;
  for (Value v : out) types.push_back(v.getType());
  auto fused = ir::FusedOp::create(b, ir::makeLocation(b.getContext(), place), types, in.getArrayRef(),
                                   byRows ? "rows" : "elementwise", cast<ir::UserOp>(last).getDeviceAttr());
  for (StringRef name : {StringRef(ir::kLagAttr), StringRef(ir::kStrideAttr), StringRef(ir::kPreparedAttr)})
    if (Attribute a = last->getAttr(name)) fused->setAttr(name, a);
  Block &body = fused.getBody().emplaceBlock();
  IRMapping values;
  for (Value v : in) values.map(v, body.addArgument(v.getType(), v.getLoc()));
  b.setInsertionPointToEnd(&body);
  for (uint32_t m : members) {
    Operation *copy = b.clone(*g->ops[m], values);
    for (NamedAttribute a : llvm::to_vector(copy->getDiscardableAttrs()))
      if (a.getName() != ir::kGradientOfAttr) copy->removeAttr(a.getName());
  }
  SmallVector<Value> results;
  for (Value v : out) results.push_back(values.lookup(v));
  ir::YieldOp::create(b, fused.getLoc(), results);
  for (auto [i, made] : llvm::enumerate(out)) {
    Value v = made;
    v.replaceUsesWithIf(fused.getOuts()[static_cast<unsigned>(i)],
                        [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  }
  for (uint32_t m : llvm::reverse(members)) {
    g->indexOf.erase(g->ops[m]);
    g->ops[m]->erase();
  }
}

} // namespace

void writeAlone(LoopGraph *g) {
  for (uint32_t op = 0; op < g->ops.size(); ++op)
    if (g->indexOf.count(g->ops[op]) && g->needsCode.count(g->ops[op])) fuse(g, {op});
}

void writeRegions(Block &block, LoopGraph *g, const std::vector<RegionJoin> &joins,
                  const std::vector<uint32_t> &regions) {
  SmallVector<Operation *> sources, outputs;
  for (Operation &op : block)
    if (!ir::isTask(&op) && !op.hasTrait<OpTrait::IsTerminator>())
      (isa<ir::OutputOp>(&op) ? outputs : sources).push_back(&op);
  Operation *end = block.getTerminator();
  for (Operation *op : sources) op->moveBefore(end);
  for (uint32_t r : regions)
    for (uint32_t m : joins[r].members) g->ops[m]->moveBefore(end);
  for (Operation *op : outputs) op->moveBefore(end);
  for (uint32_t r : regions)
    if (joins[r].members.size() > 1) fuse(g, joins[r].members);
}

} // namespace opc
