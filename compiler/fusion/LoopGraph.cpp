// Which ops have loops, over what, and what they read.
// SPDX-License-Identifier: Apache-2.0
#include "LoopGraph.h"
#include "AssignDevices.h"
#include "AttrBridge.h"
#include "ColumnParts.h"
#include "DeviceLoop.h"
#include "Graph.h"
#include "OpEffects.h"
#include "OpForms.h"

#include "opc/PositionedRows.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

// What is read and written of a row, and what an op makes of it, at most: rows are to stay in the second cache.
constexpr int64_t kMostRowBytes = 512 << 10;
// Rows are what threads share: fewer are joined only where there is little to compute.
constexpr int64_t kFewRows = 16, kLittle = 32768;
// So are pieces of rows, where rows are put together.
constexpr int64_t kFewPieces = 8;
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

/// The op as its plan will have it on a rank: with what its tensors are pieces of.
std::unique_ptr<OpInstance> toPiece(ir::UserOp op, const user_op::OpDef &def) {
  auto piece = ir::toInstance(op, def);
  std::vector<user_op::TensorShard> shards;
  for (const ir::ShardingAttr attr : op->getAttrOfType<ArrayAttr>(ir::kShardingAttr).getAsRange<ir::ShardingAttr>()) {
    const size_t i = shards.size(), inputs = piece->inputDescs().size();
    const user_op::TensorDesc &own = i < inputs ? piece->inputDescs()[i] : piece->outputDescs()[i - inputs];
    const ArrayRef<int64_t> dims = attr.getDims();
    const ArrayRef<SbpParallel> states = attr.getState().getStates();
    shards.push_back({user_op::TensorDesc(Shape({dims.begin(), dims.end()}), own.data_type()),
                      std::vector<int64_t>(dims.size(), 0),
                      {states.begin(), states.end()}});
  }
  piece->setShards(std::move(shards), ParallelContext(0, 1));
  return piece;
}

/// Bytes that a kernel needs beside its tensors; an error is found again when memory is planned.
uint64_t workspaceOf(const OpInstance &instance, const user_op::KernelDef &kernel) {
  const auto bytes = instance.tmpSize(kernel);
  return bytes ? *bytes : 0;
}

/// What the form of an op says of its loop.
struct FormFacts {
  LoopKey key; // without what the op itself says of its step and device
  OverwritePairs overwrites;
  uint64_t workspace = 0;
  std::shared_ptr<const user_op::RowsLoop> rows;
  std::shared_ptr<const user_op::MoveMap> moves;
  bool needsCode = false; // for a GPU that has no kernel for it
};

/// Beside its form: what else decides about an op's loop.
struct LoopSearch {
  const Registry &registry;
  DeviceType device;
  bool isFree;  // it has no effects, and no place by control
  bool mayDraw; // it has no place by control and writes nothing, but is impure: it may draw random numbers
  bool isAside; // on the CPU beside a GPU

  LoopSearch(ir::UserOp op, const user_op::OpDef &def, const Registry &all, DeviceType wanted)
      : registry(all), device(wanted), isFree(isMemoryEffectFree(op)),
        mayDraw(!isFree && ir::onlyMakesResults(op, def) && !hasPieces(op)),
        isAside(wanted == DeviceType::kGPU && isOnCpu(op)) {}
  ir::OpForm formOf(ir::UserOp op) const {
    return ir::OpForm(op, ir::OpForm::kResults, {static_cast<uintptr_t>(device), isFree, mayDraw, isAside});
  }
};

/// What an op's kernel needs and offers on the device that it is for. In a graph for a GPU an op may have none there.
void noteKernel(const OpInstance &instance, const LoopSearch &to, FormFacts *facts) {
  const auto kernel = instance.selectKernel(to.registry, to.device);
  if (!kernel) return;
  if (to.isFree) facts->overwrites = instance.inplacePairs(**kernel);
  facts->workspace = workspaceOf(instance, **kernel);
}

/// The op's loop by its kernel on the CPU, which says what may be joined on every device.
LoopKey findLoop(Operation *op, const OpInstance &instance, const LoopSearch &to, FormFacts *facts) {
  const auto kernel = instance.selectKernel(to.registry, DeviceType::kCPU);
  if (!kernel) return noLoop(FusionReason::kNoLoop);
  const Joinable loops = joinable(instance, **kernel);
  if (!to.isFree && !dynamic_cast<const user_op::PositionedRows *>(loops.rows.get()))
    return noLoop(FusionReason::kWrites);
  if (!loops.may) return noLoop(FusionReason::kNoLoop);
  const bool isOnDevice = to.device == DeviceType::kGPU;
  if (isOnDevice && !mayJoinOnDevice(instance, **kernel, loops)) return noLoop(FusionReason::kDeviceCode);
  facts->needsCode = isOnDevice && !instance.selectKernel(to.registry, to.device);
  Value whole = op->getResult(0);
  if (loops.rows) {
    if (hasPiecesOfRows(op, loops.rows->size)) return noLoop(FusionReason::kNoLoop);
    // Rows that are put together may be some of several ranks: a region knows nothing of the others, as a mean must.
    if (hasPieces(op) && !joinable(*toPiece(cast<ir::UserOp>(op), instance.def()), **kernel).rows)
      return noLoop(FusionReason::kNoLoop);
    const auto &inputs = loops.rows->inputs;
    const auto at = std::find(inputs.begin(), inputs.end(), user_op::RowPart::kRow) - inputs.begin();
    if (at == static_cast<std::ptrdiff_t>(inputs.size())) return noLoop(FusionReason::kNoLoop);
    whole = op->getOperand(static_cast<unsigned>(at));
    facts->rows = loops.rows;
  }
  if (loops.moves && hasPieces(op)) return noLoop(FusionReason::kNoLoop);
  facts->moves = loops.moves;
  LoopKey key;
  key.moves = loops.moves != nullptr;
  key.shape =
      RankedTensorType::get(cast<RankedTensorType>(whole.getType()).getShape(), IndexType::get(op->getContext()));
  key.rowSize = loops.rows ? loops.rows->size : 0;
  return key;
}

FormFacts findFacts(ir::UserOp op, const user_op::OpDef &def, const LoopSearch &to) {
  FormFacts facts;
  const std::unique_ptr<OpInstance> instance = ir::toInstance(op, def);
  const bool isOpen = llvm::any_of(op->getResultTypes(), [](Type t) {
    const auto type = dyn_cast<RankedTensorType>(t);
    return !type || !type.hasStaticShape();
  });
  const bool may = to.isFree || to.mayDraw;
  facts.key = noLoop(!may ? FusionReason::kWrites : isOpen ? FusionReason::kOpenShape : FusionReason::kNoLoop);
  if (!instance || (may && (isOpen || op->getNumResults() == 0))) return facts;
  noteKernel(*instance, to, &facts);
  if (may) facts.key = to.isAside ? noLoop(FusionReason::kDevice) : findLoop(op, *instance, to, &facts);
  return facts;
}

} // namespace

LoopKey together(const LoopKey &a, const LoopKey &b) {
  if (a.lag != b.lag || a.stride != b.stride) return noLoop(FusionReason::kStep);
  if (a.device != b.device) return noLoop(FusionReason::kDevice);
  if (a.isPrepared != b.isPrepared) return noLoop(FusionReason::kPrepared);
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
  findNeighbours();
  overwrites.resize(ops.size());
  workspaces.resize(ops.size(), 0);
  partBytes.resize(ops.size(), 0);
  rows.resize(ops.size());
  moves.resize(ops.size());
  keys.resize(ops.size());
  ir::ByForm<FormFacts> known;
  for (uint32_t op = 0; op < ops.size(); ++op) {
    auto user = dyn_cast<ir::UserOp>(ops[op]);
    const user_op::OpDef *def = user ? user.def() : nullptr;
    keys[op] = noLoop(def && def->isView ? FusionReason::kView : FusionReason::kNoLoop);
    if (!def || def->isView) continue;
    const LoopSearch to(user, *def, registry, device);
    const ir::OpForm form = to.formOf(user);
    const bool isPiece = ops[op]->hasAttr(ir::kShardingAttr); // the form does not say of what
    const FormFacts *facts = isPiece ? nullptr : known.find(form);
    FormFacts own;
    if (!facts) {
      own = findFacts(user, *def, to);
      facts = isPiece ? &own : &known.add(form, std::move(own));
    }
    keys[op] = facts->key;
    overwrites[op] = facts->overwrites;
    workspaces[op] = facts->workspace;
    rows[op] = facts->rows;
    moves[op] = facts->moves;
    partBytes[op] = columnParts({columnsOf(op)}).bytes;
    if (facts->needsCode) needsCode.insert(ops[op]);
    if (!keys[op]) continue;
    keys[op].lag = ops[op]->getAttr(ir::kLagAttr);
    keys[op].stride = ops[op]->getAttr(ir::kStrideAttr);
    keys[op].isPrepared = ops[op]->hasAttr(ir::kPreparedAttr);
    // On a GPU all that is not the CPU's is the device's.
    if (device != DeviceType::kGPU) keys[op].device = user.getDeviceAttr();
  }
}

void LoopGraph::findNeighbours() {
  const auto place = [&](Operation *op) {
    const auto it = indexOf.find(op);
    return it == indexOf.end() ? kOutside : it->second;
  };
  uint32_t results = 0;
  for (Operation *op : ops) {
    for (Value v : op->getOperands()) makers_.add(place(v.getDefiningOp()));
    makers_.close();
    firstResult_.push_back(results);
    for (Value v : op->getResults()) {
      for (Operation *reader : v.getUsers()) readers_.add(place(reader));
      readers_.close();
      ++results;
    }
  }
}

bool LoopGraph::tensors(const std::vector<uint32_t> &members, llvm::function_ref<bool(uint32_t)> inside, ValueSet *in,
                        ValueSet *out, size_t most) const {
  for (uint32_t m : members) {
    for (const auto [operand, maker] : llvm::zip(ops[m]->getOpOperands(), makers_[m]))
      if (!inside(maker)) in->insert(operand.get());
    for (Value v : ops[m]->getResults())
      if (llvm::any_of(readers_[firstResult_[m] + cast<OpResult>(v).getResultNumber()],
                       [&](uint32_t reader) { return !inside(reader); }))
        out->insert(v);
    if (in->size() + out->size() > most) return false;
  }
  return true;
}

std::optional<FusionReason> LoopGraph::unfitForRows(const LoopKey &key, const std::vector<uint32_t> &members,
                                                    const ValueSet &in, const ValueSet &out) const {
  const int64_t total = key.shape.getNumElements(), count = total / key.rowSize;
  int64_t bytes = 0; // of a row
  for (const auto *values : {&in, &out})
    for (Value v : *values) bytes += ir::bytesOf(v) / count;
  for (uint32_t m : members)
    for (Value v : ops[m]->getResults())
      if (ir::bytesOf(v) / count > kMostRowBytes) return FusionReason::kLength;
  for (uint32_t m : members)
    if (const auto *columns = columnsOf(m); columns && columns->pieces() < kFewPieces && total > kLittle)
      return FusionReason::kLength;
  if (bytes > kMostRowBytes || (count < kFewRows && total > kLittle)) return FusionReason::kLength;
  return std::nullopt;
}

std::optional<FusionReason> LoopGraph::unfitForMoves(const RegionOutline &outline, const ValueSet &in,
                                                     const ValueSet &out, MoveAccess *access) const {
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
                                             const ValueSet &in, const ValueSet &out) const {
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

int64_t bytesOf(const ValueSet &values) {
  int64_t bytes = 0;
  for (Value v : values) bytes += ir::bytesOf(v);
  return bytes;
}

} // namespace opc
