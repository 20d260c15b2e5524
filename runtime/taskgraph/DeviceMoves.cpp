// Packing, copies and fills of boxing steps in a device's memory.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceMoves.h"

#include "BlockCopy.h"
#include "OrderedSum.h"

#include <algorithm>

namespace opc::runtime {
namespace {

constexpr size_t kAlignment = 256;

cuda::CuPointer addressOf(const void *p) { return reinterpret_cast<cuda::CuPointer>(p); }

} // namespace

DeviceMoves::DeviceMoves(const std::vector<BoxingOp> &ops, int64_t rank, const CudaDevice &device,
                         std::shared_ptr<ExchangeCounters> counters)
    : ops_(ops), rank_(rank), step_(ops[0].step), device_(device), counters_(std::move(counters)),
      members_(ranksOf(ops[0], rank)) {
  for (const BoxingOp &op : ops_) {
    bytesSent_ += bytesSent(op, rank_);
    const auto target = op.target.positionOf(rank_);
    outputElements_.push_back(target ? localBox(op.shape, op.step.to, op.target.dims, *target).elements() : 0);
  }
}

size_t DeviceMoves::take(size_t bytes) {
  const size_t offset = scratchBytes_;
  scratchBytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

DeviceMoves::Place DeviceMoves::placed(CommBlock block) {
  Place place{std::move(block), std::nullopt};
  if (place.block.bytes() > 0 && !isContiguous(place.block))
    place.packed = take(static_cast<size_t>(place.block.bytes()));
  return place;
}

void DeviceMoves::prepareMoves() {
  BoxingMoves moves = movesOf(ops_, rank_);
  fillFirst_ = moves.fillFirst;
  copies_ = std::move(moves.copies);
  for (const BoxingMoves::Copy &c : copies_) {
    const bool direct = isContiguous(c.from) || isContiguous(c.to);
    copyPlaces_.push_back(direct ? std::nullopt : std::optional(take(static_cast<size_t>(c.from.bytes()))));
  }
  const auto prepared = [&](std::vector<BoxingMoves::Message> &messages) {
    std::vector<Move> list;
    for (BoxingMoves::Message &m : messages) {
      if (m.block.bytes() == 0) continue; // at both ends
      const auto member = std::find(members_.begin(), members_.end(), m.rank) - members_.begin();
      list.push_back({m.tensor, static_cast<int>(member), placed(std::move(m.block))});
    }
    return list;
  };
  sends_ = prepared(moves.sends);
  receives_ = prepared(moves.receives);
}

Status DeviceMoves::prepare(Device &device, Stream &stream) {
  if (!fillFirst_ || step_.reduction != BoxingReduction::kMax) return Status::ok();
  for (size_t i = 0; i < ops_.size(); ++i) {
    const size_t bytes = static_cast<size_t>(outputElements_[i]) * GetSizeOfDataType(ops_[i].type);
    std::vector<char> host(bytes);
    fillNeutral(host.data(), outputElements_[i], ops_[i].type, step_.reduction);
    OPC_ASSIGN_OR_RETURN(DeviceMemory memory, device.allocateUnwritten(bytes));
    OPC_RETURN_IF_ERROR(device.copyFromHost(stream, memory.data(), host.data(), bytes));
    OPC_RETURN_IF_ERROR(stream.synchronize());
    neutral_.push_back(std::move(memory));
  }
  return Status::ok();
}

Status DeviceMoves::pack(const CommBlock &block, char *packed, bool packing, CUstream_st *stream) const {
  BlockRuns runs(block);
  if (runs.runs() == 0) return Status::ok();
  const size_t width = runs.runBytes();
  const int64_t rows = runs.axes() > 0 ? runs.axisSize(0) : 1;
  const size_t pitch = runs.axes() > 0 ? static_cast<size_t>(runs.axisStep(0)) : width;
  for (int64_t done = 0; done < runs.runs(); done += rows) {
    cuda::CuRows copy;
    copy.from = packing ? addressOf(runs.current()) : addressOf(packed);
    copy.to = packing ? addressOf(packed) : addressOf(runs.current());
    copy.fromPitch = packing ? pitch : width, copy.toPitch = packing ? width : pitch;
    copy.width = width, copy.height = static_cast<size_t>(rows);
    OPC_RETURN_IF_ERROR(driver().check(driver().copyRows(&copy, stream), "copying a piece of a tensor"));
    packed += width * static_cast<size_t>(rows);
    for (int64_t i = 0; i < rows; ++i) runs.next();
  }
  return Status::ok();
}

Status DeviceMoves::copyWithin(const BoxingMoves::Copy &copy, const void *from, void *to, char *scratch,
                               CUstream_st *stream) const {
  const CommBlock source = at(copy.from, from), target = at(copy.to, to);
  if (isContiguous(source)) return pack(target, BlockRuns(source).current(), false, stream);
  if (isContiguous(target)) return pack(source, BlockRuns(target).current(), true, stream);
  OPC_RETURN_IF_ERROR(pack(source, scratch, true, stream));
  return pack(target, scratch, false, stream);
}

Status DeviceMoves::fill(void *const *outputs, CUstream_st *stream) const {
  for (size_t i = 0; i < ops_.size(); ++i) {
    const size_t bytes = static_cast<size_t>(outputElements_[i]) * GetSizeOfDataType(ops_[i].type);
    if (bytes == 0) continue;
    const auto r = neutral_.empty()
                       ? driver().setBytes(addressOf(outputs[i]), 0, bytes, stream)
                       : driver().copyOnDevice(addressOf(outputs[i]), addressOf(neutral_[i].data()), bytes, stream);
    OPC_RETURN_IF_ERROR(driver().check(r, "filling a tensor"));
  }
  return Status::ok();
}

char *DeviceMoves::locate(const Move &move, const void *base, char *scratch) const {
  return move.place.packed ? scratch + *move.place.packed : BlockRuns(at(move.place.block, base)).current();
}

Status DeviceMoves::packSends(const void *const *inputs, char *scratch, CUstream_st *stream) const {
  for (const Move &m : sends_)
    if (m.place.packed)
      OPC_RETURN_IF_ERROR(pack(at(m.place.block, inputs[m.tensor]), scratch + *m.place.packed, true, stream));
  return Status::ok();
}

Status DeviceMoves::finishMoves(const void *const *inputs, void *const *outputs, char *scratch,
                                CUstream_st *stream) const {
  for (const Move &m : receives_)
    if (m.place.packed)
      OPC_RETURN_IF_ERROR(pack(at(m.place.block, outputs[m.tensor]), scratch + *m.place.packed, false, stream));
  if (fillFirst_) OPC_RETURN_IF_ERROR(fill(outputs, stream));
  for (size_t i = 0; i < copies_.size(); ++i) {
    const BoxingMoves::Copy &c = copies_[i];
    if (inputs[c.tensor] != outputs[c.tensor])
      OPC_RETURN_IF_ERROR(
          copyWithin(c, inputs[c.tensor], outputs[c.tensor], scratch + copyPlaces_[i].value_or(0), stream));
  }
  return Status::ok();
}

} // namespace opc::runtime
