// A boxing step as calls of NCCL, in the order of a stream.
// SPDX-License-Identifier: Apache-2.0
#include "NcclBoxing.h"

#include "BlockCopy.h"
#include "OrderedSum.h"

#include <algorithm>

namespace opc::runtime {
namespace {

constexpr size_t kAlignment = 256;

cuda::CuPointer addressOf(const void *p) { return reinterpret_cast<cuda::CuPointer>(p); }

CommBlock at(CommBlock block, const void *base) {
  block.base = const_cast<void *>(base); // of what is sent, only read
  return block;
}

/// Whether the blocks lie one behind the other, all of one size.
bool areRow(const std::vector<CommBlock> &blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockRuns runs(blocks[i]);
    if (blocks[i].bytes() != blocks[0].bytes() || !runs.contiguous() ||
        runs.offset() != static_cast<int64_t>(i) * blocks[0].bytes())
      return false;
  }
  return !blocks.empty() && blocks[0].bytes() > 0;
}

} // namespace

bool NcclBoxing::canRun(const std::vector<BoxingOp> &ops, int64_t rank, bool deterministic) {
  const BoxingKind kind = ops[0].step.kind;
  if (kind != BoxingKind::kAllReduce && kind != BoxingKind::kReduceScatter) return true;
  const size_t addends = ranksOf(ops[0], rank).size();
  return std::all_of(ops.begin(), ops.end(), [&](const BoxingOp &op) {
    return cuda::ncclTypeOf(op.type) && (!deterministic || isOrderFree(op.type, op.step.reduction, addends));
  });
}

NcclBoxing::NcclBoxing(const std::vector<BoxingOp> &ops, int64_t rank, std::shared_ptr<cuda::NcclGroups> groups,
                       std::optional<size_t> group, std::shared_ptr<ExchangeCounters> counters)
    : ops_(ops), rank_(rank), step_(ops[0].step), groups_(std::move(groups)), group_(group),
      counters_(std::move(counters)), members_(ranksOf(ops[0], rank)) {
  for (const BoxingOp &op : ops_) {
    bytesSent_ += bytesSent(op, rank_);
    const auto target = op.target.positionOf(rank_);
    outputElements_.push_back(target ? localBox(op.shape, op.step.to, op.target.dims, *target).elements() : 0);
  }
  const BoxingKind kind = step_.kind;
  sums_ = group_ && (kind == BoxingKind::kAllReduce || kind == BoxingKind::kReduceScatter);
  if (sums_) prepareSums();
  if (group_ && kind == BoxingKind::kAllGather) prepareGathers();
  if (!sums_ && !gathersWhole_) prepareMoves(movesOf(ops_, rank_));
}

size_t NcclBoxing::take(size_t bytes) {
  const size_t offset = scratchBytes_;
  scratchBytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

NcclBoxing::Place NcclBoxing::placed(CommBlock block) {
  Place place{std::move(block), std::nullopt};
  if (place.block.bytes() > 0 && !isContiguous(place.block))
    place.packed = take(static_cast<size_t>(place.block.bytes()));
  return place;
}

void NcclBoxing::prepareMoves(BoxingMoves moves) {
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

void NcclBoxing::prepareGathers() {
  gathersWhole_ = true;
  for (const BoxingOp &op : ops_) {
    const std::vector<CommBlock> pieces = piecesOf(op, rank_, members_);
    gathersWhole_ &= areRow(pieces);
    gathers_.push_back({true, static_cast<size_t>(pieces[0].bytes())});
  }
}

void NcclBoxing::prepareSums() {
  for (const BoxingOp &op : ops_) {
    Sum sum;
    sum.type = *cuda::ncclTypeOf(op.type);
    const Box own = localBox(op.shape, op.step.from, op.source.dims, *op.source.positionOf(rank_));
    sum.elements = own.elements();
    if (step_.kind == BoxingKind::kReduceScatter) {
      const std::vector<CommBlock> pieces = piecesOf(op, rank_, members_);
      sum.isRow = areRow(pieces);
      sum.isEven =
          std::all_of(pieces.begin(), pieces.end(), [&](const CommBlock &b) { return b.bytes() == pieces[0].bytes(); });
      if (!sum.isRow) sum.packed = take(static_cast<size_t>(sum.elements) * GetSizeOfDataType(op.type));
      for (const CommBlock &b : pieces) sum.pieces.push_back({b, std::nullopt});
    }
    tensorSums_.push_back(std::move(sum));
  }
}

Status NcclBoxing::prepare(Device &device, Stream &stream) {
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

/// Between a block and consecutive bytes: rows of bytes for each index of the axes outside the innermost.
Status NcclBoxing::pack(const CommBlock &block, char *packed, bool packing, CUstream_st *stream) const {
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

Status NcclBoxing::copyWithin(const BoxingMoves::Copy &copy, const void *from, void *to, char *scratch,
                              CUstream_st *stream) const {
  const CommBlock source = at(copy.from, from), target = at(copy.to, to);
  if (isContiguous(source)) return pack(target, BlockRuns(source).current(), false, stream);
  if (isContiguous(target)) return pack(source, BlockRuns(target).current(), true, stream);
  OPC_RETURN_IF_ERROR(pack(source, scratch, true, stream));
  return pack(target, scratch, false, stream);
}

Status NcclBoxing::fill(void *const *outputs, CUstream_st *stream) const {
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

Status NcclBoxing::runMoves(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream) {
  const auto place = [&](const Move &m, const void *base) -> char * {
    return m.place.packed ? scratch + *m.place.packed : BlockRuns(at(m.place.block, base)).current();
  };
  for (const Move &m : sends_)
    if (m.place.packed)
      OPC_RETURN_IF_ERROR(pack(at(m.place.block, inputs[m.tensor]), scratch + *m.place.packed, true, stream));
  const cuda::NcclLibrary &nccl = groups_->library();
  if (!sends_.empty() || !receives_.empty())
    OPC_RETURN_IF_ERROR(groups_->run(*group_, [&](ncclComm *comm) -> Status {
      for (const Move &m : sends_) {
        const auto bytes = static_cast<size_t>(m.place.block.bytes());
        OPC_RETURN_IF_ERROR(nccl.check(
            nccl.send(place(m, inputs[m.tensor]), bytes, cuda::kNcclBytes, m.rank, comm, stream), "ncclSend"));
      }
      for (const Move &m : receives_) {
        const auto bytes = static_cast<size_t>(m.place.block.bytes());
        OPC_RETURN_IF_ERROR(nccl.check(
            nccl.recv(place(m, outputs[m.tensor]), bytes, cuda::kNcclBytes, m.rank, comm, stream), "ncclRecv"));
        counters_->bytesReceived += bytes;
      }
      return Status::ok();
    }));
  counters_->messages += sends_.size();
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

Status NcclBoxing::runGathers(const void *const *inputs, void *const *outputs, CUstream_st *stream) {
  const cuda::NcclLibrary &nccl = groups_->library();
  counters_->collectives += gathers_.size();
  return groups_->run(*group_, [&](ncclComm *comm) -> Status {
    for (size_t i = 0; i < gathers_.size(); ++i)
      OPC_RETURN_IF_ERROR(nccl.check(
          nccl.allGather(inputs[i], outputs[i], gathers_[i].bytes, cuda::kNcclBytes, comm, stream), "ncclAllGather"));
    return Status::ok();
  });
}

Status NcclBoxing::runSums(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream) {
  const cuda::NcclLibrary &nccl = groups_->library();
  const int op = step_.reduction == BoxingReduction::kMax ? cuda::kNcclMax : cuda::kNcclSum;
  std::vector<const void *> rows(inputs, inputs + ops_.size()); // what is added up, in the members' order
  for (size_t i = 0; i < tensorSums_.size(); ++i) {
    const Sum &sum = tensorSums_[i];
    if (sum.pieces.empty() || sum.isRow) continue;
    char *packed = scratch + sum.packed;
    rows[i] = packed;
    for (const Place &p : sum.pieces) {
      OPC_RETURN_IF_ERROR(pack(at(p.block, inputs[i]), packed, true, stream));
      packed += p.block.bytes();
    }
  }
  counters_->collectives += tensorSums_.size();
  return groups_->run(*group_, [&](ncclComm *comm) -> Status {
    for (size_t i = 0; i < tensorSums_.size(); ++i) {
      const Sum &sum = tensorSums_[i];
      const size_t element = GetSizeOfDataType(ops_[i].type);
      if (sum.elements == 0) continue;
      if (sum.pieces.empty()) {
        OPC_RETURN_IF_ERROR(nccl.check(
            nccl.allReduce(rows[i], outputs[i], static_cast<size_t>(sum.elements), sum.type, op, comm, stream),
            "ncclAllReduce"));
        continue;
      }
      const auto elementsOf = [&](size_t m) { return static_cast<size_t>(sum.pieces[m].block.bytes()) / element; };
      if (sum.isEven) {
        OPC_RETURN_IF_ERROR(nccl.check(
            nccl.reduceScatter(rows[i], outputs[i], elementsOf(0), sum.type, op, comm, stream), "ncclReduceScatter"));
        continue;
      }
      // Pieces of several sizes are sums of their own, each at the member that gets it.
      const char *piece = static_cast<const char *>(rows[i]);
      for (size_t m = 0; m < members_.size(); ++m) {
        const size_t n = elementsOf(m);
        if (n == 0) continue;
        OPC_RETURN_IF_ERROR(nccl.check(
            nccl.reduce(piece, outputs[i], n, sum.type, op, static_cast<int>(m), comm, stream), "ncclReduce"));
        piece += n * element;
      }
    }
    return Status::ok();
  });
}

Status NcclBoxing::run(Communicator &, Stream &stream, const void *const *inputs, void *const *outputs,
                       const Scratch &scratch) {
  CUstream_st *s = stream.context()->cuda_stream();
  counters_->bytesSent += static_cast<uint64_t>(bytesSent_);
  if (sums_) {
    counters_->bytesReceived += static_cast<uint64_t>(bytesSent_); // at least, however NCCL moves them
    return runSums(inputs, outputs, scratch.device, s);
  }
  if (gathersWhole_) {
    for (const Gather &g : gathers_) counters_->bytesReceived += g.bytes * (members_.size() - 1);
    return runGathers(inputs, outputs, s);
  }
  return runMoves(inputs, outputs, scratch.device, s);
}

} // namespace opc::runtime
