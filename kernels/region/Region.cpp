// What regions are, and what must hold of them.
// SPDX-License-Identifier: Apache-2.0
#include "Region.h"
#include "ColumnParts.h"
#include "ComputeType.h"
#include "HostContexts.h"
#include "MoveAccess.h"
#include "RegionCore.h"
#include "RowAccess.h"
#include "RowLoops.h"

#include "opc/StagedKernel.h"

#include <algorithm>

namespace opc {

using user_op::KernelDef;
using user_op::TensorDesc;

const user_op::OpDef &regionOp() {
  static const user_op::OpDef def = [] {
    user_op::OpDef d;
    d.name = kRegionType;
    user_op::ArgDef in, out;
    in.name = "in";
    out.name = "out";
    in.count = out.count = 1;
    in.atLeast = out.atLeast = true;
    in.optional = true;  // a region of constants alone
    out.optional = true; // a batch of updates
    d.inputs = {in};
    d.outputs = {out};
    return d;
  }();
  return def;
}

namespace {

using Made = Result<std::unique_ptr<user_op::OpKernel>>;

/// The kernel's object; empty for one that carries something from one run to the next.
Made kernelOf(HostCreateContext *context, const KernelDef &kernel) {
  std::unique_ptr<user_op::OpKernel> made;
  if (!kernel.create || kernel.hasState) return std::move(made);
  OPC_RETURN_IF_ERROR(kernel.create(context, &made));
  return std::move(made);
}

} // namespace

Result<std::unique_ptr<user_op::RowLoop>> rowLoopOf(const OpInstance &op, const KernelDef &kernel) {
  std::unique_ptr<user_op::RowLoop> loop;
  if (op.outputDescs().size() != 1) return std::move(loop);
  HostCreateContext context(op, DeviceType::kCPU);
  OPC_ASSIGN_OR_RETURN(auto made, kernelOf(&context, kernel));
  if (const auto *elements = dynamic_cast<const user_op::JoinableKernel *>(made.get()))
    OPC_RETURN_IF_ERROR(elements->MakeLoop(context, &loop));
  return std::move(loop);
}

bool computesInF32(const OpInstance &op, const KernelDef &kernel) {
  HostCreateContext context(op, DeviceType::kCPU);
  const Made made = kernelOf(&context, kernel);
  return made && dynamic_cast<const user_op::StagedKernel<float> *>(made->get());
}

namespace {

/// Whether what a loop over rows makes can be had: an element of a row, or, of loops over columns, all at the end.
bool isSound(const user_op::RowsLoop &loop) {
  const auto *columns = dynamic_cast<const user_op::ColumnsLoop *>(&loop);
  if (columns && (columns->pieceRows < 1 || columns->pieces() > kMaxRegionPieces)) return false;
  return std::all_of(loop.outputs.begin(), loop.outputs.end(),
                     [&](user_op::RowPart part) { return (part == user_op::RowPart::kWhole) == (columns != nullptr); });
}

} // namespace

Joinable joinable(const OpInstance &op, const KernelDef &kernel) {
  Joinable found;
  HostCreateContext context(op, DeviceType::kCPU);
  const Made made = kernelOf(&context, kernel);
  if (!made) return found;
  if (const auto *byRows = dynamic_cast<const user_op::RowsKernel *>(made->get())) {
    std::unique_ptr<user_op::RowsLoop> loop;
    const Status s = user_op::detail::guarded([&] { return byRows->MakeRows(context, &loop); });
    if (!s.isOk() || !loop || loop->rows < 1 || loop->size < 2) return found;
    if (loop->inputs.size() != op.inputDescs().size() || loop->outputs.size() != op.outputDescs().size()) return found;
    if (!isSound(*loop)) return found;
    return {true, std::move(loop), nullptr};
  }
  if (const auto *moving = dynamic_cast<const user_op::MovingKernel *>(made->get())) {
    auto map = std::make_shared<user_op::MoveMap>();
    const Status s = user_op::detail::guarded([&] { return moving->MakeMap(context, map.get()); });
    found.may = s.isOk() && op.shards().empty() && op.outputDescs().size() == 1 &&
                makeSound(map.get(), op.inputDescs(), op.outputDescs()[0]);
    if (found.may) found.moves = std::move(map);
    return found;
  }
  const auto *elements = dynamic_cast<const user_op::JoinableKernel *>(made->get());
  std::unique_ptr<user_op::RowLoop> loop;
  found.may = elements && op.outputDescs().size() == 1 && elements->MakeLoop(context, &loop).isOk() && loop;
  return found;
}

void Region::add(RegionStep step) {
  step.made = static_cast<uint32_t>(values());
  for (uint32_t o = 0; o < step.op.outputDescs().size(); ++o)
    makers_.emplace_back(static_cast<uint32_t>(steps.size()), o);
  hasMoves_ |= step.moves != nullptr;
  steps.push_back(std::move(step));
}

namespace {

Status bad(const std::string &what) {
  return Status(StatusCode::kInvalidGraph, "OPC0816", "invalid plan: " + what).withHelp("compile the graph again");
}

Status checkStep(const Region &region, size_t index) {
  const RegionStep &step = region.steps[index];
  const std::string name = "step " + std::to_string(index) + " of the region, " + step.op.conf().name;
  const bool anyShape = region.rowSize > 0 || region.hasMoves();
  if (!anyShape && (step.op.outputDescs().size() != 1 || step.op.outputDescs()[0].shape() != region.shape))
    return bad(name + ", does not make one tensor of the shape of the region, " + region.shape.ToString());
  if (!step.rows && step.op.outputDescs().size() != 1) return bad(name + ", makes more than one tensor");
  if (!step.op.shards().empty()) return bad(name + ", is cut over several ranks");
  if (step.args.size() != step.op.inputDescs().size()) return bad(name + ", has other inputs than its op");
  for (size_t k = 0; k < step.args.size(); ++k) {
    if (step.args[k] >= region.valueOf(index)) return bad(name + ", reads what is made after it");
    if (step.op.inputDescs()[k] != region.descOf(step.args[k])) return bad(name + ", reads a value of another type");
  }
  return Status::ok();
}

Status checkMoves(const Region &region) {
  MoveAccess access;
  std::string why;
  if (!findMoveAccess(outlineOf(region), &access, &why)) return bad(why);
  if (access.inputs.size() > kMaxRegionTensors)
    return bad("the loop of a region reads its inputs in " + std::to_string(access.inputs.size()) +
               " ways; the limit is " + std::to_string(kMaxRegionTensors));
  return Status::ok();
}

Status checkRows(const Region &region) {
  MoveAccess moves;
  RowAccess access;
  std::string why;
  RegionOutline outline = outlineOf(region);
  if (region.hasMoves()) {
    findMoveAccess(outline, &moves, &why); // checkMoves() has done so
    outline = withoutMoves(outline, moves);
  }
  if (!findRowAccess(outline, &access, &why)) return bad(why);
  int64_t bytes = 0;
  for (uint32_t v = 0; v < region.values() && bytes <= kMaxRowBytes; ++v)
    bytes +=
        std::min(region.rowSize, kMaxRowBytes) * static_cast<int64_t>(GetSizeOfDataType(region.descOf(v).data_type()));
  if (bytes > kMaxRowBytes)
    return bad("the rows of a region, of " + std::to_string(region.rowSize) + " elements, are too long");
  return Status::ok();
}

/// The loop's shape: that of the results, or of what a step that goes by rows has rows of.
void findShape(Region *region) {
  for (const RegionStep &step : region->steps) {
    if (!step.rows) continue;
    for (size_t k = 0; k < step.rows->inputs.size(); ++k)
      if (step.rows->inputs[k] == user_op::RowPart::kRow) {
        region->shape = step.op.inputDescs()[k].shape();
        region->rowSize = step.rows->size;
        return;
      }
  }
  if (!region->outputs.empty()) region->shape = region->descOf(region->outputs[0]).shape();
}

} // namespace

RegionOutline outlineOf(const Region &region) {
  RegionOutline outline;
  outline.shape = region.shape;
  outline.rowSize = region.rowSize;
  for (const TensorDesc &d : region.inputs) outline.inputs.push_back(d.shape());
  for (const RegionStep &step : region.steps) {
    outline.steps.push_back({step.args, {}, step.rows.get(), step.moves.get()});
    for (const TensorDesc &d : step.op.outputDescs()) outline.steps.back().made.push_back(d.shape());
  }
  outline.outputs = region.outputs;
  return outline;
}

Status completeRegion(Region *whole) {
  const Region &region = *whole;
  if (region.steps.empty() || region.steps.size() > kMaxRegionSteps)
    return bad("a region has " + std::to_string(region.steps.size()) + " steps; 1 to " +
               std::to_string(kMaxRegionSteps) + " are possible");
  if (region.inputs.size() > kMaxRegionTensors || region.outputs.empty() || region.outputs.size() > kMaxRegionTensors)
    return bad("a region has " + std::to_string(region.inputs.size()) + " inputs and " +
               std::to_string(region.outputs.size()) + " outputs; the limit is " + std::to_string(kMaxRegionTensors));
  if (region.values() - region.inputs.size() > kMaxRegionValues)
    return bad("the steps of a region make more than " + std::to_string(kMaxRegionValues) + " tensors");
  std::vector<bool> seen(region.values());
  for (uint32_t value : region.outputs) {
    if (value < region.inputs.size() || value >= region.values() || seen[value])
      return bad("an output of a region is no result of a step, or that of another output");
    seen[value] = true;
  }
  findShape(whole);
  if (region.rowSize == 0 && !region.hasMoves())
    for (const TensorDesc &in : region.inputs)
      if (!broadcasts(in.shape(), region.shape))
        return bad("an input of a region, " + in.toString() + ", does not broadcast to " + region.shape.ToString());
  for (size_t i = 0; i < region.steps.size(); ++i) OPC_RETURN_IF_ERROR(checkStep(region, i));
  if (region.hasMoves()) OPC_RETURN_IF_ERROR(checkMoves(region));
  return region.rowSize == 0 ? Status::ok() : checkRows(region);
}

namespace {

/// How the operands that are the region's inputs are read; for a region by rows.
struct InputUse {
  bool asRows = false, asOnes = false, otherwise = false;
};
std::vector<InputUse> usesOf(const Region &region) {
  std::vector<InputUse> uses(region.inputs.size());
  RowAccess access;
  std::string why;
  findRowAccess(outlineOf(region), &access, &why); // completeRegion() has done so
  for (size_t i = 0; i < region.steps.size(); ++i)
    for (size_t k = 0; k < region.steps[i].args.size(); ++k) {
      const uint32_t v = region.steps[i].args[k];
      if (v >= region.inputs.size()) continue;
      const RowRead read = access.reads[i][k];
      const bool one = read == RowRead::kOnes || (read == RowRead::kBroadcast &&
                                                  isOneForEach(region.inputs[v].shape(), region.shape, region.rowSize));
      (read == RowRead::kRows ? uses[v].asRows : one ? uses[v].asOnes : uses[v].otherwise) = true;
    }
  return uses;
}

} // namespace

static std::vector<std::pair<int, int>> pairsOfLoop(const Region &region) {
  std::vector<size_t> lastRead(region.inputs.size(), 0);
  for (size_t i = 0; i < region.steps.size(); ++i)
    for (uint32_t value : region.steps[i].args)
      if (value < region.inputs.size()) lastRead[value] = i;
  std::vector<InputUse> uses;
  if (region.rowSize > 0) uses = usesOf(region);
  const auto lieAlike = [&](size_t input, const Shape &out) {
    if (region.inputs[input].shape() != out) return false;
    if (region.rowSize == 0) return out == region.shape;
    const InputUse &use = uses[input];
    return !use.otherwise && (out == region.shape ? !use.asOnes : !use.asRows);
  };
  std::vector<std::pair<int, int>> pairs;
  for (size_t o = 0; o < region.outputs.size(); ++o) {
    const TensorDesc &out = region.descOf(region.outputs[o]);
    const size_t maker = region.makerOf(region.outputs[o]);
    for (size_t i = 0; i < region.inputs.size(); ++i)
      if (GetSizeOfDataType(region.inputs[i].data_type()) == GetSizeOfDataType(out.data_type()) &&
          (region.steps[maker].rows ? lastRead[i] < maker : lastRead[i] <= maker) && lieAlike(i, out.shape()))
        pairs.emplace_back(static_cast<int>(o), static_cast<int>(i));
  }
  return pairs;
}

std::vector<std::pair<int, int>> regionInplacePairs(const Region &region) {
  if (!region.hasMoves()) return pairsOfLoop(region);
  const RegionCore core = coreOf(std::make_shared<const Region>(region));
  std::vector<std::pair<int, int>> pairs;
  for (const auto &[o, i] : pairsOfLoop(*core.region)) {
    const LoopInput &in = core.inputs[static_cast<size_t>(i)];
    bool isFree = !in.isMoved;
    for (size_t k = 0; k < core.inputs.size(); ++k) {
      const LoopInput &other = core.inputs[k];
      if (static_cast<int>(k) == i) continue;
      isFree &= other.isMoved || other.value != in.value;
      for (const MovedSource &s : other.sources) isFree &= !other.isMoved || s.input != in.value;
    }
    if (isFree) pairs.emplace_back(o, static_cast<int>(in.value));
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

} // namespace opc
