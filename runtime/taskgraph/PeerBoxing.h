// A boxing step between devices of one process that reach each other's memory: copies and sums in the streams, which
// wait for each other by events.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceMoves.h"

namespace opc::runtime {

/// Each rank takes what it gets. First all say where what they give lies, and behind which event of their stream; when
/// all have put their copies and sums into their streams, each stream waits for those that have read its memory. The
/// host's threads meet, and nobody waits for a device. Sums are made in the order of the ranks, with the CPU's bits.
class PeerBoxing final : public DeviceMoves {
public:
  /// Whether the step has sums that the device code has: others go another way, on all ranks alike.
  static bool canRun(const std::vector<BoxingOp> &ops, int64_t rank);
  /// `contexts`: of all ranks of the job.
  static Result<std::unique_ptr<PeerBoxing>> create(const std::vector<BoxingOp> &ops, int64_t rank, CudaDevice &device,
                                                    const std::vector<CUctx_st *> &contexts, int channel,
                                                    std::shared_ptr<ExchangeCounters> counters);
  ~PeerBoxing() override;

  Status run(Communicator &comm, Stream &stream, const void *const *inputs, void *const *outputs,
             const Scratch &scratch) override;

private:
  /// What ranks tell each other at one place of the step: an event, and addresses.
  struct Meeting {
    std::vector<std::vector<void *>> said, heard; // by member
    std::vector<CommMessage> sends, receives;
    int64_t bytes = 0;
    CUevent_st *event = nullptr;
  };
  struct Sum { // of one tensor
    CUfunc_st *kernel = nullptr;
    size_t element = 0;
    std::vector<int64_t> begin, elements; // of each member's piece, in what all give
    std::vector<CommBlock> pieces;        // that are packed first, by member
    size_t packed = 0;
  };

  PeerBoxing(const std::vector<BoxingOp> &ops, int64_t rank, CudaDevice &device, int channel,
             std::shared_ptr<ExchangeCounters> counters);
  Status prepareSums(CudaDevice &device);
  Status prepareMeetings(CudaDevice &device);
  Status addMeeting(CudaDevice &device, const std::vector<size_t> &told, const std::vector<size_t> &hears);
  bool isOther(size_t member) const { return members_[member] != rank_; }
  Status meet(Meeting &meeting, Communicator &comm, CUstream_st *stream);
  Status copy(void *to, const void *from, size_t member, size_t bytes, CUstream_st *stream);
  Status add(const Sum &sum, size_t tensor, void *output, CUstream_st *stream);
  Status runMoves(Communicator &comm, CUstream_st *stream, const void *const *inputs, void *const *outputs,
                  char *scratch);
  Status runSums(Communicator &comm, CUstream_st *stream, const void *const *inputs, void *const *outputs,
                 char *scratch);

  CUctx_st *context_;
  const int channel_;
  std::vector<CUctx_st *> contexts_; // by member
  size_t me_ = 0;                    // among the members
  bool sums_ = false;
  std::vector<Sum> tensorSums_;
  std::vector<void *> own_;    // by tensor: where what this rank adds lies
  std::vector<size_t> places_; // by member: the next word
  std::vector<Meeting> meetings_;
};

} // namespace opc::runtime
