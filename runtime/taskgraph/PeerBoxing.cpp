// A boxing step between devices of one process that reach each other's memory.
// SPDX-License-Identifier: Apache-2.0
#include "PeerBoxing.h"

#include "AddNArguments.h"
#include "BlockCopy.h"
#include "CudaLaunch.h"
#include "KernelImages.h"

#include <algorithm>

namespace opc::runtime {
namespace {

using opc::cuda::AddNArguments;

constexpr unsigned kNoTiming = 2; // CU_EVENT_DISABLE_TIMING of cuda.h
/// Pieces of an all-reduce begin at multiples of so many elements: accesses of 16 bytes of every type.
constexpr int64_t kPieceStep = 64;

cuda::CuPointer addressOf(const void *p) { return reinterpret_cast<cuda::CuPointer>(p); }

bool isSum(BoxingKind kind) { return kind == BoxingKind::kAllReduce || kind == BoxingKind::kReduceScatter; }

std::string kernelOf(DataType type) { return std::string("add_n_") + dataTypeName(type); }

} // namespace

bool PeerBoxing::canRun(const std::vector<BoxingOp> &ops, int64_t rank) {
  const size_t addends = ranksOf(ops[0], rank).size();
  if (!isSum(ops[0].step.kind) || addends == 1) return true;
  return std::all_of(ops.begin(), ops.end(), [&](const BoxingOp &op) {
    return op.step.reduction == BoxingReduction::kSum && addends <= AddNArguments::kInputs &&
           opc::cuda::imageOf(kernelOf(op.type)) >= 0;
  });
}

PeerBoxing::PeerBoxing(const std::vector<BoxingOp> &ops, int64_t rank, CudaDevice &device, int channel,
                       std::shared_ptr<ExchangeCounters> counters)
    : DeviceMoves(ops, rank, device, std::move(counters)), context_(device.context()), channel_(channel) {}

PeerBoxing::~PeerBoxing() {
  if (meetings_.empty() || !device_.enter().isOk()) return;
  for (const Meeting &m : meetings_) driver().eventDestroy(m.event);
}

Result<std::unique_ptr<PeerBoxing>> PeerBoxing::create(const std::vector<BoxingOp> &ops, int64_t rank,
                                                       CudaDevice &device, const std::vector<CUctx_st *> &contexts,
                                                       int channel, std::shared_ptr<ExchangeCounters> counters) {
  std::unique_ptr<PeerBoxing> boxing(new PeerBoxing(ops, rank, device, channel, std::move(counters)));
  for (const int64_t r : boxing->members_) boxing->contexts_.push_back(contexts[static_cast<size_t>(r)]);
  const auto &all = boxing->members_;
  boxing->me_ = static_cast<size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
  boxing->own_.resize(ops.size()), boxing->places_.resize(all.size());
  boxing->sums_ = isSum(boxing->step_.kind) && all.size() > 1;
  OPC_RETURN_IF_ERROR(device.enter());
  if (boxing->sums_)
    OPC_RETURN_IF_ERROR(boxing->prepareSums(device));
  else
    boxing->prepareMoves();
  OPC_RETURN_IF_ERROR(boxing->prepareMeetings(device));
  return boxing;
}

Status PeerBoxing::prepareSums(CudaDevice &device) {
  const auto count = static_cast<int64_t>(members_.size());
  for (const BoxingOp &op : ops_) {
    Sum sum;
    OPC_ASSIGN_OR_RETURN(sum.kernel, device.function(kernelOf(op.type)));
    sum.element = GetSizeOfDataType(op.type);
    const int64_t elements = localBox(op.shape, op.step.from, op.source.dims, *op.source.positionOf(rank_)).elements();
    if (step_.kind == BoxingKind::kAllReduce) {
      const int64_t most = (elements / count + kPieceStep) / kPieceStep * kPieceStep;
      for (int64_t m = 0; m < count; ++m) {
        sum.begin.push_back(std::min(elements, m * most));
        sum.elements.push_back(std::min(elements, (m + 1) * most) - sum.begin.back());
      }
    } else {
      // As large, and as far apart, on all of them: what they give is cut in one way.
      const std::vector<CommBlock> pieces = piecesOf(op, rank_, members_);
      const bool direct = std::all_of(pieces.begin(), pieces.end(), isContiguous);
      int64_t next = 0;
      for (const CommBlock &b : pieces) {
        sum.begin.push_back(direct ? BlockRuns(b).offset() / static_cast<int64_t>(sum.element) : next);
        sum.elements.push_back(b.box.elements());
        next += sum.elements.back();
      }
      if (!direct) sum.pieces = pieces, sum.packed = take(static_cast<size_t>(elements) * sum.element);
    }
    tensorSums_.push_back(std::move(sum));
  }
  return Status::ok();
}

/// Who has told something, when all that read it have done so, tells nothing else before they have.
Status PeerBoxing::addMeeting(CudaDevice &device, const std::vector<size_t> &told, const std::vector<size_t> &hears) {
  Meeting &m = meetings_.emplace_back();
  OPC_RETURN_IF_ERROR(driver().check(driver().eventCreate(&m.event, kNoTiming), "making an event on " + device.name()));
  m.said.resize(members_.size()), m.heard.resize(members_.size());
  const auto message = [&](size_t member, std::vector<void *> &words) {
    const auto bytes = static_cast<int64_t>(words.size() * sizeof(void *));
    return CommMessage{members_[member], CommBlock{static_cast<void *>(words.data()), {bytes}, Box{{0}, {bytes}}, 1}};
  };
  for (size_t i = 0; i < members_.size(); ++i) {
    m.said[i].resize(told[i]), m.heard[i].resize(hears[i]);
    if (!m.said[i].empty()) m.said[i][0] = m.event;
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    if (told[i]) m.sends.push_back(message(i, m.said[i])), m.bytes += m.sends.back().block.bytes();
    if (hears[i]) m.receives.push_back(message(i, m.heard[i]));
  }
  return Status::ok();
}

Status PeerBoxing::prepareMeetings(CudaDevice &device) {
  std::vector<size_t> gives(members_.size()), gets(members_.size());
  const auto one = [](const std::vector<size_t> &words) {
    std::vector<size_t> events;
    for (const size_t n : words) events.push_back(n > 0);
    return events;
  };
  if (sums_) {
    for (size_t i = 0; i < members_.size(); ++i) gives[i] = isOther(i) ? 1 + 2 * ops_.size() : 0;
    gets = gives;
    if (step_.kind == BoxingKind::kAllReduce) {
      OPC_RETURN_IF_ERROR(addMeeting(device, gives, gets));
      OPC_RETURN_IF_ERROR(addMeeting(device, one(gives), one(gets)));
      return addMeeting(device, one(gets), one(gives));
    }
  }
  for (const Move &m : sends_) gives[static_cast<size_t>(m.member)] += gives[static_cast<size_t>(m.member)] ? 1 : 2;
  for (const Move &m : receives_) gets[static_cast<size_t>(m.member)] += gets[static_cast<size_t>(m.member)] ? 1 : 2;
  if (!sums_ && sends_.empty() && receives_.empty()) return Status::ok();
  OPC_RETURN_IF_ERROR(addMeeting(device, gives, gets));
  return addMeeting(device, one(gets), one(gives));
}

/// What the stream has so far comes before what others put behind this meeting, and theirs before what follows here.
Status PeerBoxing::meet(Meeting &meeting, Communicator &comm, CUstream_st *stream) {
  OPC_RETURN_IF_ERROR(driver().check(driver().eventRecord(meeting.event, stream), "marking a place in a stream"));
  OPC_RETURN_IF_ERROR(comm.exchange(channel_, meeting.sends, meeting.receives));
  // The engine has counted what the ranks told each other, which is nothing of the plan's.
  counters_->bytesSent -= static_cast<uint64_t>(meeting.bytes);
  counters_->messages -= meeting.sends.size();
  for (const CommMessage &m : meeting.receives) counters_->bytesReceived -= static_cast<uint64_t>(m.block.bytes());
  for (const std::vector<void *> &words : meeting.heard)
    if (!words.empty())
      OPC_RETURN_IF_ERROR(driver().check(driver().streamWaitEvent(stream, static_cast<CUevent_st *>(words[0]), 0),
                                         "waiting for another rank's stream"));
  return Status::ok();
}

Status PeerBoxing::copy(void *to, const void *from, size_t member, size_t bytes, CUstream_st *stream) {
  return driver().check(driver().copyPeer(addressOf(to), context_, addressOf(from), contexts_[member], bytes, stream),
                        "copying from the device of rank " + std::to_string(members_[member]));
}

Status PeerBoxing::runMoves(Communicator &comm, CUstream_st *stream, const void *const *inputs, void *const *outputs,
                            char *scratch) {
  OPC_RETURN_IF_ERROR(packSends(inputs, scratch, stream));
  if (meetings_.empty()) return finishMoves(inputs, outputs, scratch, stream);
  Meeting &ready = meetings_[0];
  std::vector<size_t> &next = places_;
  std::fill(next.begin(), next.end(), 1);
  for (const Move &m : sends_) {
    const auto member = static_cast<size_t>(m.member);
    ready.said[member][next[member]++] = locate(m, inputs[m.tensor], scratch);
  }
  OPC_RETURN_IF_ERROR(meet(ready, comm, stream));
  std::fill(next.begin(), next.end(), 1);
  for (const Move &m : receives_) {
    const auto member = static_cast<size_t>(m.member);
    const auto bytes = static_cast<size_t>(m.place.block.bytes());
    OPC_RETURN_IF_ERROR(
        copy(locate(m, outputs[m.tensor], scratch), ready.heard[member][next[member]++], member, bytes, stream));
    counters_->bytesReceived += bytes;
  }
  counters_->messages += sends_.size();
  OPC_RETURN_IF_ERROR(finishMoves(inputs, outputs, scratch, stream));
  return meet(meetings_[1], comm, stream);
}

/// This rank's piece of a sum, from all ranks' memory.
Status PeerBoxing::add(const Sum &sum, size_t tensor, void *output, CUstream_st *stream) {
  AddNArguments a{};
  a.n = sum.elements[me_];
  if (a.n == 0) return Status::ok();
  a.out = output;
  a.count = static_cast<int32_t>(members_.size());
  cuda::CuPointer all = addressOf(output);
  const size_t offset = static_cast<size_t>(sum.begin[me_]) * sum.element;
  for (size_t i = 0; i < members_.size(); ++i) {
    void *of = isOther(i) ? meetings_[0].heard[i][1 + 2 * tensor] : own_[tensor];
    a.in[i] = static_cast<const char *>(of) + offset;
    all |= addressOf(a.in[i]);
  }
  a.isAligned = all % 16 == 0;
  void *arguments[] = {&a, nullptr};
  const opc::cuda::Dim3 grid = opc::cuda::blocksFor(a.n);
  return driver().check(
      driver().launchKernel(sum.kernel, grid.x, grid.y, grid.z, opc::cuda::kBlock, 1, 1, 0, stream, arguments, nullptr),
      "adding up what the ranks have");
}

Status PeerBoxing::runSums(Communicator &comm, CUstream_st *stream, const void *const *inputs, void *const *outputs,
                           char *scratch) {
  const bool all = step_.kind == BoxingKind::kAllReduce;
  Meeting &ready = meetings_[0];
  for (size_t t = 0; t < tensorSums_.size(); ++t) {
    const Sum &sum = tensorSums_[t];
    char *packed = scratch + sum.packed;
    own_[t] = sum.pieces.empty() ? const_cast<void *>(inputs[t]) : packed; // only read
    for (const CommBlock &piece : sum.pieces) {
      OPC_RETURN_IF_ERROR(pack(at(piece, inputs[t]), packed, true, stream));
      packed += piece.bytes();
    }
    for (std::vector<void *> &words : ready.said)
      if (!words.empty()) words[1 + 2 * t] = own_[t], words[2 + 2 * t] = outputs[t];
  }
  OPC_RETURN_IF_ERROR(meet(ready, comm, stream));
  for (size_t t = 0; t < tensorSums_.size(); ++t) {
    const auto offset = all ? static_cast<size_t>(tensorSums_[t].begin[me_]) * tensorSums_[t].element : 0;
    OPC_RETURN_IF_ERROR(add(tensorSums_[t], t, static_cast<char *>(outputs[t]) + offset, stream));
  }
  counters_->collectives += tensorSums_.size();
  OPC_RETURN_IF_ERROR(meet(meetings_[1], comm, stream));
  if (!all) return Status::ok();
  for (size_t t = 0; t < tensorSums_.size(); ++t) {
    const Sum &sum = tensorSums_[t];
    for (size_t i = 0; i < members_.size(); ++i) {
      const auto offset = static_cast<size_t>(sum.begin[i]) * sum.element,
                 bytes = static_cast<size_t>(sum.elements[i]) * sum.element;
      if (!isOther(i) || bytes == 0) continue;
      OPC_RETURN_IF_ERROR(copy(static_cast<char *>(outputs[t]) + offset,
                               static_cast<const char *>(ready.heard[i][2 + 2 * t]) + offset, i, bytes, stream));
    }
  }
  return meet(meetings_[2], comm, stream);
}

Status PeerBoxing::run(Communicator &comm, Stream &stream, const void *const *inputs, void *const *outputs,
                       const Scratch &scratch) {
  CUstream_st *s = stream.context()->cuda_stream();
  counters_->bytesSent += static_cast<uint64_t>(bytesSent_);
  if (sums_) counters_->bytesReceived += static_cast<uint64_t>(bytesSent_);
  Status status =
      sums_ ? runSums(comm, s, inputs, outputs, scratch.device) : runMoves(comm, s, inputs, outputs, scratch.device);
  // Others may give their memory back when this rank has failed: nothing here reads it any longer.
  if (!status.isOk()) driver().streamSynchronize(s);
  return status;
}

} // namespace opc::runtime
