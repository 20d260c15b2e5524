// A boxing step as calls of NCCL, in the order of a stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceMoves.h"
#include "cuda/NcclLibrary.h"

#include <optional>

namespace opc::runtime {

class NcclBoxing final : public DeviceMoves {
public:
  /// Whether NCCL has what the step needs: other steps go another way, on all ranks alike.
  /// With `deterministic` NCCL may not add up what depends on an order.
  static bool canRun(const std::vector<BoxingOp> &ops, int64_t rank, bool deterministic);
  /// `group`: of ranksOf() the step; nothing where no other rank has a part in it.
  NcclBoxing(const std::vector<BoxingOp> &ops, int64_t rank, std::shared_ptr<cuda::NcclGroups> groups,
             std::optional<size_t> group, std::shared_ptr<ExchangeCounters> counters);

  Status run(Communicator &comm, Stream &stream, const void *const *inputs, void *const *outputs,
             const Scratch &scratch) override;

private:
  struct Sum { // of one tensor
    int type = 0;
    int64_t elements = 0;          // of an all-reduce
    std::vector<CommBlock> pieces; // of a reduce-scatter, by member
    bool isRow = false;            // they lie in their order, one as large as the other
    size_t packed = 0;             // where all of them go one behind the other, if not
    bool isEven = false;
  };
  struct Gather {
    bool isRow = false; // the pieces come to their places in the members' order, one as large as the other
    size_t bytes = 0;
  };

  void prepareGathers();
  void prepareSums();
  Status runMoves(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream);
  Status runGathers(const void *const *inputs, void *const *outputs, CUstream_st *stream);
  Status runSums(const void *const *inputs, void *const *outputs, char *scratch, CUstream_st *stream);

  std::shared_ptr<cuda::NcclGroups> groups_;
  std::optional<size_t> group_;
  bool sums_ = false, gathersWhole_ = false;
  std::vector<Gather> gathers_;
  std::vector<Sum> tensorSums_;
};

} // namespace opc::runtime
