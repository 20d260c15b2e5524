// What boxing steps in a device's memory have in common, whoever carries messages: pieces that are packed into the
// scratch and out of it, copies within the rank, fills.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BoxingMoves.h"
#include "DeviceExchange.h"
#include "cuda/CudaDevice.h"

#include <optional>

namespace opc::runtime {

class DeviceMoves : public DeviceBoxing {
public:
  size_t deviceBytes() const override { return scratchBytes_; }
  /// Takes what a step reads beside its inputs.
  Status prepare(Device &device, Stream &stream);

protected:
  /// A block and, where it is not consecutive bytes, its place in the scratch.
  struct Place {
    CommBlock block;
    std::optional<size_t> packed;
  };
  struct Move {
    size_t tensor = 0;
    int member = 0; // in the order of members_
    Place place;
  };

  DeviceMoves(const std::vector<BoxingOp> &ops, int64_t rank, const CudaDevice &device,
              std::shared_ptr<ExchangeCounters> counters);
  /// Of all that the step moves between ranks and within this one.
  void prepareMoves();
  size_t take(size_t bytes);
  /// A block with the base that a step runs with.
  static CommBlock at(CommBlock block, const void *base) {
    block.base = const_cast<void *>(base); // of what is sent, only read
    return block;
  }
  /// The consecutive bytes that a message goes from, or comes to.
  char *locate(const Move &move, const void *base, char *scratch) const;
  /// Between a block and consecutive bytes: rows of bytes for each index of the axes outside the innermost.
  Status pack(const CommBlock &block, char *packed, bool packing, CUstream_st *stream) const;
  /// Before messages go, and when they have come.
  Status packSends(const void *const *inputs, char *scratch, CUstream_st *stream) const;
  Status finishMoves(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream) const;
  const cuda::CudaDriver &driver() const { return device_.driver(); }

  const std::vector<BoxingOp> ops_;
  const int64_t rank_;
  const BoxingStep step_;
  const CudaDevice &device_;
  std::shared_ptr<ExchangeCounters> counters_;
  const std::vector<int64_t> members_; // ranks that the step goes on among
  std::vector<Move> sends_, receives_;
  int64_t bytesSent_ = 0;

private:
  Place placed(CommBlock block);
  Status copyWithin(const BoxingMoves::Copy &copy, const void *from, void *to, char *scratch,
                    CUstream_st *stream) const;
  Status fill(void *const *outputs, CUstream_st *stream) const;

  std::vector<BoxingMoves::Copy> copies_;
  std::vector<std::optional<size_t>> copyPlaces_;
  bool fillFirst_ = false;
  std::vector<int64_t> outputElements_;
  std::vector<DeviceMemory> neutral_; // by tensor, where zeros are not what adds nothing
  size_t scratchBytes_ = 0;
};

} // namespace opc::runtime
