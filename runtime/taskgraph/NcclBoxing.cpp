// A boxing step as calls of NCCL, in the order of a stream.
// SPDX-License-Identifier: Apache-2.0
#include "NcclBoxing.h"

#include "BlockCopy.h"
#include "OrderedSum.h"

#include <algorithm>

namespace opc::runtime {
namespace {

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
    : DeviceMoves(ops, rank, groups->device(), std::move(counters)), groups_(std::move(groups)), group_(group) {
  const BoxingKind kind = step_.kind;
  sums_ = group_ && (kind == BoxingKind::kAllReduce || kind == BoxingKind::kReduceScatter);
  if (sums_) prepareSums();
  if (group_ && kind == BoxingKind::kAllGather) prepareGathers();
  if (!sums_ && !gathersWhole_) prepareMoves();
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
      sum.pieces = pieces;
    }
    tensorSums_.push_back(std::move(sum));
  }
}

Status NcclBoxing::runMoves(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream) {
  OPC_RETURN_IF_ERROR(packSends(inputs, scratch, stream));
  const cuda::NcclLibrary &nccl = groups_->library();
  if (!sends_.empty() || !receives_.empty())
    OPC_RETURN_IF_ERROR(groups_->run(*group_, [&](ncclComm *comm) -> Status {
      for (const Move &m : sends_) {
        const auto bytes = static_cast<size_t>(m.place.block.bytes());
        OPC_RETURN_IF_ERROR(
            nccl.check(nccl.send(locate(m, inputs[m.tensor], scratch), bytes, cuda::kNcclBytes, m.member, comm, stream),
                       "ncclSend"));
      }
      for (const Move &m : receives_) {
        const auto bytes = static_cast<size_t>(m.place.block.bytes());
        OPC_RETURN_IF_ERROR(nccl.check(
            nccl.recv(locate(m, outputs[m.tensor], scratch), bytes, cuda::kNcclBytes, m.member, comm, stream),
            "ncclRecv"));
        counters_->bytesReceived += bytes;
      }
      return Status::ok();
    }));
  counters_->messages += sends_.size();
  return finishMoves(inputs, outputs, scratch, stream);
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
    for (const CommBlock &piece : sum.pieces) {
      OPC_RETURN_IF_ERROR(pack(at(piece, inputs[i]), packed, true, stream));
      packed += piece.bytes();
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
      const auto elementsOf = [&](size_t m) { return static_cast<size_t>(sum.pieces[m].bytes()) / element; };
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
