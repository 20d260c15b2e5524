// Which ops have loops, over what, and what they read.
// SPDX-License-Identifier: Apache-2.0
#include "LoopGraph.h"
#include "AttrBridge.h"
#include "Graph.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

// What is read and written of a row, and what an op makes of it, at most: rows are to stay in the second cache.
constexpr int64_t kMostRowBytes = 512 << 10;
// Rows are what threads share: fewer are joined only where there is little to compute.
constexpr int64_t kFewRows = 16, kLittle = 32768;

LoopKey noLoop(FusionReason reason) {
  LoopKey none;
  none.reason = reason;
  return none;
}

/// Whether a rank holds pieces of the rows that the op is about, so that a mean, say, is of more elements than those
/// here.
bool hasPiecesOfRows(Operation *op, int64_t rowSize) {
  const auto shardings = op->getAttrOfType<ArrayAttr>(ir::kShardingAttr);
  if (!shardings) return false;
  for (auto [operand, attr] : llvm::zip(op->getOperands(), shardings.getAsRange<ir::ShardingAttr>())) {
    const ArrayRef<int64_t> dims = cast<RankedTensorType>(operand.getType()).getShape();
    int64_t axis = static_cast<int64_t>(dims.size()), elements = 1;
    while (axis > 0 && elements < rowSize) elements *= dims[static_cast<size_t>(--axis)];
    for (const SbpParallel &state : attr.getState().getStates())
      // An axis of one element here, before those of the row, may be a piece of it, too.
      if (state.has_split_parallel() && (state.axis() >= axis || dims[static_cast<size_t>(state.axis())] == 1))
        return true;
  }
  return false;
}

LoopKey keyOf(Operation *op, const Registry &registry, OverwritePairs *overwrites,
              std::shared_ptr<const user_op::RowsLoop> *rows) {
  auto user = dyn_cast<ir::UserOp>(op);
  const user_op::OpDef *def = user ? user.def() : nullptr;
  if (!def) return noLoop(FusionReason::kNoLoop);
  if (def->isView) return noLoop(FusionReason::kView);
  if (!isMemoryEffectFree(op)) return noLoop(FusionReason::kWrites);
  for (Value v : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(v.getType()); !type || !type.hasStaticShape())
      return noLoop(FusionReason::kOpenShape);
  const std::unique_ptr<OpInstance> instance = ir::toInstance(user, *def);
  if (!instance || op->getNumResults() == 0) return noLoop(FusionReason::kNoLoop);
  const auto kernel = instance->selectKernel(registry, DeviceType::kCPU);
  if (!kernel) return noLoop(FusionReason::kNoLoop);
  *overwrites = instance->inplacePairs(**kernel);
  const Joinable loops = joinable(*instance, **kernel);
  if (!loops.may) return noLoop(FusionReason::kNoLoop);
  Value whole = op->getResult(0);
  if (loops.rows) {
    if (hasPiecesOfRows(op, loops.rows->size)) return noLoop(FusionReason::kNoLoop);
    const auto &inputs = loops.rows->inputs;
    const auto at = std::find(inputs.begin(), inputs.end(), user_op::RowPart::kRow) - inputs.begin();
    if (at == static_cast<std::ptrdiff_t>(inputs.size())) return noLoop(FusionReason::kNoLoop);
    whole = user.getArgs()[static_cast<unsigned>(at)];
    *rows = loops.rows;
  }
  LoopKey key;
  key.shape =
      RankedTensorType::get(cast<RankedTensorType>(whole.getType()).getShape(), IndexType::get(op->getContext()));
  key.rowSize = loops.rows ? loops.rows->size : 0;
  key.lag = op->getAttr(ir::kLagAttr);
  key.stride = op->getAttr(ir::kStrideAttr);
  key.device = user.getDeviceAttr();
  return key;
}

} // namespace

LoopKey together(const LoopKey &a, const LoopKey &b) {
  if (a.lag != b.lag || a.stride != b.stride) return noLoop(FusionReason::kStep);
  if (a.device != b.device) return noLoop(FusionReason::kDevice);
  const LoopKey &rows = a.rowSize > 0 ? a : b, &other = a.rowSize > 0 ? b : a;
  if (a.shape == b.shape) {
    if (a.rowSize > 0 && b.rowSize > 0 && a.rowSize != b.rowSize) return noLoop(FusionReason::kRows);
    return rows;
  }
  // An op over elements may have an element for each row.
  const bool oneForEach = rows.rowSize > 0 && other.rowSize == 0 &&
                          other.shape.getNumElements() * rows.rowSize == rows.shape.getNumElements();
  return oneForEach ? rows : noLoop(FusionReason::kShape);
}

LoopGraph::LoopGraph(Block &block, const Registry &registry) {
  for (Operation &op : block)
    if (ir::isTask(&op)) {
      indexOf[&op] = static_cast<uint32_t>(ops.size());
      ops.push_back(&op);
    }
  overwrites.resize(ops.size());
  rows.resize(ops.size());
  for (uint32_t op = 0; op < ops.size(); ++op) keys.push_back(keyOf(ops[op], registry, &overwrites[op], &rows[op]));
}

void LoopGraph::tensors(const std::vector<uint32_t> &members, llvm::function_ref<bool(Operation *)> inside,
                        llvm::SetVector<Value> *in, llvm::SetVector<Value> *out) const {
  for (uint32_t m : members) {
    for (Value v : ops[m]->getOperands())
      if (!inside(v.getDefiningOp())) in->insert(v);
    for (Value v : ops[m]->getResults())
      if (llvm::any_of(v.getUsers(), [&](Operation *u) { return !inside(u); })) out->insert(v);
  }
}

std::optional<FusionReason> LoopGraph::unfitForRows(const LoopKey &key, const std::vector<uint32_t> &members,
                                                    const llvm::SetVector<Value> &in,
                                                    const llvm::SetVector<Value> &out) const {
  const int64_t total = key.shape.getNumElements(), count = total / key.rowSize;
  int64_t bytes = 0; // of a row
  for (const auto *values : {&in, &out})
    for (Value v : *values) bytes += ir::bytesOf(v) / count;
  for (uint32_t m : members)
    for (Value v : ops[m]->getResults())
      if (ir::bytesOf(v) / count > kMostRowBytes) return FusionReason::kLength;
  if (bytes > kMostRowBytes || (count < kFewRows && total > kLittle)) return FusionReason::kLength;
  const auto shapeOf = [](Value v) { return ir::descOf(v).shape(); };
  RegionOutline outline;
  outline.shape = ir::descOf(key.shape).shape();
  outline.rowSize = key.rowSize;
  llvm::DenseMap<Value, uint32_t> values;
  for (Value v : in) {
    values.try_emplace(v, static_cast<uint32_t>(values.size()));
    outline.inputs.push_back(shapeOf(v));
  }
  for (uint32_t m : members) {
    RegionOutline::Step step;
    step.rows = rows[m].get();
    for (Value v : ops[m]->getOperands()) step.args.push_back(values.lookup(v));
    for (Value v : ops[m]->getResults()) {
      values.try_emplace(v, static_cast<uint32_t>(values.size()));
      step.made.push_back(shapeOf(v));
    }
    outline.steps.push_back(std::move(step));
  }
  RowAccess access;
  std::string why;
  if (findRowAccess(outline, &access, &why)) return std::nullopt;
  return FusionReason::kAccess;
}

int64_t bytesOf(const llvm::SetVector<Value> &values) {
  int64_t bytes = 0;
  for (Value v : values) bytes += ir::bytesOf(v);
  return bytes;
}

} // namespace opc
