// The ops of a graph as those who form regions see them: which have loops, over what, and what they read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FusionReasons.h"
#include "MoveAccess.h"
#include "RegionPeak.h"
#include "Registry.h"

#include "opc/ColumnsLoop.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <optional>

namespace opc {

/// What decides whether two ops, or groups of them, can be in one loop. Empty, with the reason, for an op without one.
struct LoopKey {
  mlir::RankedTensorType shape = nullptr; // of the loop; the element type says nothing
  int64_t rowSize = 0;                    // 0: over elements
  bool moves = false;                     // some ops only move elements: others may have other shapes
  mlir::Attribute lag = nullptr, stride = nullptr, device = nullptr;
  bool isPrepared = false; // runs once, before the first step
  FusionReason reason = FusionReason::kNoLoop;
  explicit operator bool() const { return shape != nullptr; }
};

/// The loop of the two together; without one, the reason.
LoopKey together(const LoopKey &a, const LoopKey &b);

/// Tensors, each once, in the order in which they were met: nearly always as many as a loop may have.
using ValueSet = llvm::SmallSetVector<mlir::Value, 16>;

struct LoopGraph {
  LoopGraph(mlir::Block &block, const Registry &registry, DeviceType device);

  static constexpr uint32_t kOutside = UINT32_MAX; // in the place of an op: what is no task

  /// The op with a loop that makes a value.
  std::optional<uint32_t> loopThatMakes(mlir::Value v) const {
    auto it = indexOf.find(v.getDefiningOp());
    return it != indexOf.end() && keys[it->second] ? std::optional<uint32_t>(it->second) : std::nullopt;
  }
  /// What a group reads from outside and what others read of it, each once. `inside` is asked of ops and of kOutside.
  /// False where both together are more than `most`: then some of them are missing.
  bool tensors(const std::vector<uint32_t> &members, llvm::function_ref<bool(uint32_t)> inside, ValueSet *in,
               ValueSet *out, size_t most = SIZE_MAX) const;
  /// Why a loop over rows, or one that reads through ops that move elements, cannot compute a group, in its order, that
  /// reads `in` and gives others `out`.
  std::optional<FusionReason> unfit(const LoopKey &key, const std::vector<uint32_t> &members, const ValueSet &in,
                                    const ValueSet &out) const;
  /// Bytes of a tensor that `readers` read from outside: of what they move, that alone.
  int64_t bytesRead(mlir::Value v, llvm::ArrayRef<uint32_t> readers) const;
  bool isMove(uint32_t op) const { return moves[op] != nullptr; }
  /// The loop of an op that puts rows together; null for others.
  const user_op::ColumnsLoop *columnsOf(uint32_t op) const {
    return dynamic_cast<const user_op::ColumnsLoop *>(rows[op].get());
  }

private:
  void findNeighbours();
  std::optional<FusionReason> unfitForRows(const LoopKey &key, const std::vector<uint32_t> &members, const ValueSet &in,
                                           const ValueSet &out) const;

  std::optional<FusionReason> unfitForMoves(const RegionOutline &outline, const ValueSet &in, const ValueSet &out,
                                            MoveAccess *access) const;

  /// Lists of ops, one behind the other.
  class Lists {
  public:
    void add(uint32_t op) { ops_.push_back(op); }
    void close() { ends_.push_back(static_cast<uint32_t>(ops_.size())); }
    llvm::ArrayRef<uint32_t> operator[](size_t list) const {
      const uint32_t begin = list == 0 ? 0 : ends_[list - 1];
      return llvm::ArrayRef(ops_).slice(begin, ends_[list] - begin);
    }

  private:
    std::vector<uint32_t> ops_, ends_;
  };
  Lists makers_;                      // by op: of each of its operands
  Lists readers_;                     // by result of all ops
  std::vector<uint32_t> firstResult_; // by op

public:
  std::vector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, uint32_t> indexOf;
  std::vector<LoopKey> keys;
  std::vector<std::shared_ptr<const user_op::RowsLoop>> rows; // null: elements, or none
  std::vector<std::shared_ptr<const user_op::MoveMap>> moves; // null: it computes
  std::vector<OverwritePairs> overwrites;                     // what an op's kernel offers
  std::vector<uint64_t> workspaces;                           // bytes that it needs while it runs
  std::vector<uint64_t> partBytes;                            // and in a region
  llvm::DenseSet<mlir::Operation *> needsCode;                // without a kernel on the GPU: always in a region
};

int64_t bytesOf(const ValueSet &values);

/// What became of the ops. `regions` are places in `joins`, those of one op left out or not; `refused` says of a
/// producer and a reader why they were not joined when it was tried.
void describeRegions(const LoopGraph &graph, const std::vector<RegionJoin> &joins, const std::vector<uint32_t> &regions,
                     const std::map<std::pair<uint32_t, uint32_t>, FusionReason> &refused, FusionFacts *facts);

/// Puts the ops in the order of `regions`, and an opc.fused in the place of those of more than one.
void writeRegions(mlir::Block &block, LoopGraph *graph, const std::vector<RegionJoin> &joins,
                  const std::vector<uint32_t> &regions);
/// Behind writeRegions(): regions of one op, for those that are left of `needsCode`.
void writeAlone(LoopGraph *graph);

} // namespace opc
