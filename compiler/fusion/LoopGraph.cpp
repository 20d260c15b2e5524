// Which ops have loops, over what, and what they read.
// SPDX-License-Identifier: Apache-2.0
#include "LoopGraph.h"
#include "AssignDevices.h"
#include "AttrBridge.h"
#include "DeviceLoop.h"
#include "Graph.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

// What is read and written of a row, and what an op makes of it, at most: rows are to stay in the second cache.
constexpr int64_t kMostRowBytes = 512 << 10;
// Rows are what threads share: fewer are joined only where there is little to compute.
constexpr int64_t kFewRows = 16, kLittle = 32768;
// So many elements of a row may each lie in a line of the cache of their own: the lines are to be there for the next
// row.
constexpr int64_t kMostLines = 1024, kLineBytes = 64;

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

/// Whether a rank holds a piece of one of the op's tensors.
bool hasPieces(Operation *op) {
  const auto shardings = op->getAttrOfType<ArrayAttr>(ir::kShardingAttr);
  if (!shardings) return false;
  return llvm::any_of(shardings.getAsRange<ir::ShardingAttr>(), [](ir::ShardingAttr attr) {
    return llvm::any_of(attr.getState().getStates(), [](const SbpParallel &s) { return s.has_split_parallel(); });
  });
}

/// Bytes that a kernel needs beside its tensors; an error is found again when memory is planned.
uint64_t workspaceOf(const OpInstance &instance, const user_op::KernelDef &kernel) {
  const auto bytes = instance.tmpSize(kernel);
  return bytes ? *bytes : 0;
}

/// What an op's kernel needs and offers on the device that it is for. In a graph for a GPU an op may have none there.
void noteKernel(const OpInstance &instance, const Registry &registry, DeviceType device, OverwritePairs *overwrites,
                uint64_t *workspace) {
  const auto kernel = instance.selectKernel(registry, device);
  if (!kernel) return;
  *overwrites = instance.inplacePairs(**kernel);
  *workspace = workspaceOf(instance, **kernel);
}

/// What a graph's ops are looked up for.
struct LoopSearch {
  const Registry &registry;
  DeviceType device;
  OverwritePairs *overwrites;
  uint64_t *workspace;
  std::shared_ptr<const user_op::RowsLoop> *rows;
  std::shared_ptr<const user_op::MoveMap> *moves;
  llvm::DenseSet<Operation *> *needsCode;
};

/// The op's loop by its kernel on the CPU, which says what may be joined on every device.
LoopKey loopOf(ir::UserOp user, const OpInstance &instance, const LoopSearch &to) {
  Operation *op = user;
  const auto kernel = instance.selectKernel(to.registry, DeviceType::kCPU);
  if (!kernel) return noLoop(FusionReason::kNoLoop);
  const Joinable loops = joinable(instance, **kernel);
  if (!loops.may) return noLoop(FusionReason::kNoLoop);
  const bool isOnDevice = to.device == DeviceType::kGPU;
  if (isOnDevice && (loops.rows || loops.moves || !mayJoinOnDevice(instance, **kernel)))
    return noLoop(FusionReason::kDeviceCode);
  if (isOnDevice && !instance.selectKernel(to.registry, to.device)) to.needsCode->insert(op);
  Value whole = op->getResult(0);
  if (loops.rows) {
    if (hasPiecesOfRows(op, loops.rows->size)) return noLoop(FusionReason::kNoLoop);
    const auto &inputs = loops.rows->inputs;
    const auto at = std::find(inputs.begin(), inputs.end(), user_op::RowPart::kRow) - inputs.begin();
    if (at == static_cast<std::ptrdiff_t>(inputs.size())) return noLoop(FusionReason::kNoLoop);
    whole = user.getArgs()[static_cast<unsigned>(at)];
    *to.rows = loops.rows;
  }
  if (loops.moves && hasPieces(op)) return noLoop(FusionReason::kNoLoop);
  *to.moves = loops.moves;
  LoopKey key;
  key.moves = loops.moves != nullptr;
  key.shape =
      RankedTensorType::get(cast<RankedTensorType>(whole.getType()).getShape(), IndexType::get(op->getContext()));
  key.rowSize = loops.rows ? loops.rows->size : 0;
  key.lag = op->getAttr(ir::kLagAttr);
  key.stride = op->getAttr(ir::kStrideAttr);
  if (!isOnDevice) key.device = user.getDeviceAttr(); // there all that is not the CPU's is the device's
  return key;
}

LoopKey keyOf(Operation *op, const LoopSearch &to) {
  auto user = dyn_cast<ir::UserOp>(op);
  const user_op::OpDef *def = user ? user.def() : nullptr;
  if (!def) return noLoop(FusionReason::kNoLoop);
  if (def->isView) return noLoop(FusionReason::kView);
  const std::unique_ptr<OpInstance> instance = ir::toInstance(user, *def);
  if (!isMemoryEffectFree(op)) {
    OverwritePairs none;
    if (instance) noteKernel(*instance, to.registry, to.device, &none, to.workspace);
    return noLoop(FusionReason::kWrites);
  }
  for (Value v : op->getResults())
    if (auto type = dyn_cast<RankedTensorType>(v.getType()); !type || !type.hasStaticShape())
      return noLoop(FusionReason::kOpenShape);
  if (!instance || op->getNumResults() == 0) return noLoop(FusionReason::kNoLoop);
  noteKernel(*instance, to.registry, to.device, to.overwrites, to.workspace);
  if (to.device == DeviceType::kGPU && isOnCpu(op)) return noLoop(FusionReason::kDevice);
  return loopOf(user, *instance, to);
}

} // namespace

LoopKey together(const LoopKey &a, const LoopKey &b) {
  if (a.lag != b.lag || a.stride != b.stride) return noLoop(FusionReason::kStep);
  if (a.device != b.device) return noLoop(FusionReason::kDevice);
  const LoopKey &rows = a.rowSize > 0 ? a : b, &other = a.rowSize > 0 ? b : a;
  if (a.moves || b.moves) {
    if (rows.rowSize == 0 || a.shape == b.shape) {
      LoopKey both = rows.rowSize > 0 ? rows : b; // the loop is that of what comes last
      both.moves = true;
      if (a.rowSize == 0 || b.rowSize == 0 || a.rowSize == b.rowSize) return both;
    }
    return noLoop(rows.rowSize > 0 && a.shape == b.shape ? FusionReason::kRows : FusionReason::kShape);
  }
  if (a.shape == b.shape) {
    if (a.rowSize > 0 && b.rowSize > 0 && a.rowSize != b.rowSize) return noLoop(FusionReason::kRows);
    return rows;
  }
  // An op over elements may have an element for each row.
  const bool oneForEach = rows.rowSize > 0 && other.rowSize == 0 &&
                          other.shape.getNumElements() * rows.rowSize == rows.shape.getNumElements();
  return oneForEach ? rows : noLoop(FusionReason::kShape);
}

LoopGraph::LoopGraph(Block &block, const Registry &registry, DeviceType device) {
  for (Operation &op : block)
    if (ir::isTask(&op)) {
      indexOf[&op] = static_cast<uint32_t>(ops.size());
      ops.push_back(&op);
    }
  overwrites.resize(ops.size());
  workspaces.resize(ops.size(), 0);
  rows.resize(ops.size());
  moves.resize(ops.size());
  for (uint32_t op = 0; op < ops.size(); ++op)
    keys.push_back(
        keyOf(ops[op], {registry, device, &overwrites[op], &workspaces[op], &rows[op], &moves[op], &needsCode}));
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
  return std::nullopt;
}

std::optional<FusionReason> LoopGraph::unfitForMoves(const RegionOutline &outline, const llvm::SetVector<Value> &in,
                                                     const llvm::SetVector<Value> &out, MoveAccess *access) const {
  if (llvm::all_of(outline.steps, [](const RegionOutline::Step &s) { return s.moves; })) return FusionReason::kMoves;
  std::string why;
  if (!findMoveAccess(outline, access, &why)) return FusionReason::kAccess;
  if (access->inputs.size() + out.size() > kMaxRegionTensors) return FusionReason::kTensors;
  for (const LoopInput &input : access->inputs)
    for (const MovedSource &s : input.sources) {
      size_t last = s.size.size();
      while (last > 0 && s.size[last - 1] == 1) --last;
      const auto type = cast<RankedTensorType>(in[s.input].getType());
      const int64_t bytes = ir::bytesOf(in[s.input]) / std::max<int64_t>(1, type.getNumElements());
      if (last > 0 && s.size[last - 1] > kMostLines && std::abs(s.strides[last - 1]) * bytes >= kLineBytes)
        return FusionReason::kStride;
    }
  return std::nullopt;
}

std::optional<FusionReason> LoopGraph::unfit(const LoopKey &key, const std::vector<uint32_t> &members,
                                             const llvm::SetVector<Value> &in,
                                             const llvm::SetVector<Value> &out) const {
  if (key.rowSize == 0 && !key.moves) return std::nullopt;
  if (key.rowSize > 0)
    if (const auto why = unfitForRows(key, members, in, out)) return why;
  const auto shapeOf = [](Value v) { return ir::descOf(v).shape(); };
  RegionOutline outline;
  outline.shape = ir::descOf(key.shape).shape();
  if (key.rowSize == 0 && !out.empty()) outline.shape = shapeOf(out[0]);
  outline.rowSize = key.rowSize;
  llvm::DenseMap<Value, uint32_t> values;
  for (Value v : in) {
    values.try_emplace(v, static_cast<uint32_t>(values.size()));
    outline.inputs.push_back(shapeOf(v));
  }
  bool isMoved = false;
  for (uint32_t m : members) {
    RegionOutline::Step step;
    step.rows = rows[m].get();
    step.moves = moves[m].get();
    isMoved |= step.moves != nullptr;
    for (Value v : ops[m]->getOperands()) step.args.push_back(values.lookup(v));
    for (Value v : ops[m]->getResults()) {
      values.try_emplace(v, static_cast<uint32_t>(values.size()));
      step.made.push_back(shapeOf(v));
    }
    outline.steps.push_back(std::move(step));
  }
  for (Value v : out) outline.outputs.push_back(values.lookup(v));
  MoveAccess moved;
  if (isMoved) {
    if (const auto why = unfitForMoves(outline, in, out, &moved)) return why;
    outline = withoutMoves(outline, moved);
  }
  RowAccess access;
  std::string why;
  if (key.rowSize == 0 || findRowAccess(outline, &access, &why)) return std::nullopt;
  return FusionReason::kAccess;
}

int64_t LoopGraph::bytesRead(Value v, llvm::ArrayRef<uint32_t> readers) const {
  int64_t moved = 0;
  for (uint32_t reader : readers)
    for (const OpOperand &use : ops[reader]->getOpOperands()) {
      if (use.get() != v) continue;
      if (!moves[reader]) return ir::bytesOf(v);
      const int64_t elements = cast<RankedTensorType>(v.getType()).getNumElements();
      const int64_t size = elements == 0 ? 0 : ir::bytesOf(v) / elements;
      for (const user_op::MovedBox &box : moves[reader]->boxes) {
        if (ops[reader]->getOperand(box.input) != v) continue;
        int64_t read = size; // an element that is read several times comes from the cache
        for (const user_op::AxisRead &r : box.reads)
          if (r.axis >= 0) read *= box.size[static_cast<size_t>(r.axis)];
        moved += read;
      }
    }
  return std::min(moved, ir::bytesOf(v));
}

int64_t bytesOf(const llvm::SetVector<Value> &values) {
  int64_t bytes = 0;
  for (Value v : values) bytes += ir::bytesOf(v);
  return bytes;
}

} // namespace opc
