// A boxing step as calls of NCCL, in the order of a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BoxingMoves.h"
#include "DeviceExchange.h"
#include "cuda/NcclLibrary.h"

#include <optional>

namespace opc::runtime {

class NcclBoxing final : public DeviceBoxing {
public:
  /// Whether NCCL has what the step needs: other steps go through the CPU's memory, on all ranks alike.
  /// With `deterministic` NCCL may not add up what depends on an order.
  static bool canRun(const std::vector<BoxingOp> &ops, int64_t rank, bool deterministic);
  /// `group`: of ranksOf() the step; nothing where no other rank has a part in it.
  NcclBoxing(const std::vector<BoxingOp> &ops, int64_t rank, std::shared_ptr<cuda::NcclGroups> groups,
             std::optional<size_t> group, std::shared_ptr<ExchangeCounters> counters);
  /// Takes what run() reads beside its inputs.
  Status prepare(Device &device, Stream &stream);

  size_t deviceBytes() const override { return scratchBytes_; }
  Status run(Communicator &comm, Stream &stream, const void *const *inputs, void *const *outputs,
             const Scratch &scratch) override;

private:
  /// A block and, where it is not consecutive bytes, its place in the scratch.
  struct Place {
    CommBlock block;
    std::optional<size_t> packed;
  };
  struct Move {
    size_t tensor = 0;
    int rank = 0; // in the group
    Place place;
  };
  struct Sum { // of one tensor
    int type = 0;
    int64_t elements = 0;      // of an all-reduce
    std::vector<Place> pieces; // of a reduce-scatter, by member
    bool isRow = false;        // they lie in their order, one as large as the other
    size_t packed = 0;         // where all of them go one behind the other, if not
    bool isEven = false;
  };
  struct Gather {
    bool isRow = false; // the pieces come to their places in the members' order, one as large as the other
    size_t bytes = 0;
  };

  Place placed(CommBlock block);
  size_t take(size_t bytes);
  void prepareMoves(BoxingMoves moves);
  void prepareGathers();
  void prepareSums();
  Status pack(const CommBlock &block, char *packed, bool packing, CUstream_st *stream) const;
  Status copyWithin(const BoxingMoves::Copy &copy, const void *from, void *to, char *scratch,
                    CUstream_st *stream) const;
  Status fill(void *const *outputs, CUstream_st *stream) const;
  Status runMoves(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream);
  Status runGathers(const void *const *inputs, void *const *outputs, CUstream_st *stream);
  Status runSums(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream);
  const cuda::CudaDriver &driver() const { return groups_->device().driver(); }

  const std::vector<BoxingOp> ops_;
  const int64_t rank_;
  const BoxingStep step_;
  std::shared_ptr<cuda::NcclGroups> groups_;
  std::optional<size_t> group_;
  std::shared_ptr<ExchangeCounters> counters_;
  std::vector<int64_t> members_;
  bool sums_ = false, gathersWhole_ = false;
  std::vector<BoxingMoves::Copy> copies_;
  std::vector<std::optional<size_t>> copyPlaces_;
  bool fillFirst_ = false;
  std::vector<int64_t> outputElements_;
  std::vector<Move> sends_, receives_;
  std::vector<Gather> gathers_;
  std::vector<Sum> tensorSums_;
  std::vector<DeviceMemory> neutral_; // by tensor, where zeros are not what adds nothing
  size_t scratchBytes_ = 0;
  int64_t bytesSent_ = 0;
};

} // namespace opc::runtime
