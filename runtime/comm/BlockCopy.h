// Copies between strided blocks of two tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"

#include <array>

namespace opc::runtime {

/// A block as runs of consecutive bytes, in row-major order. Neighbouring axes that are taken whole are one.
class BlockRuns {
public:
  explicit BlockRuns(const CommBlock &block);
  /// Bytes of each run, and how many there are.
  size_t runBytes() const { return runBytes_; }
  int64_t runs() const { return runs_; }
  bool contiguous() const { return runs_ == 1; }
  char *current() const { return at_; }
  /// Bytes from the base to the first run. The base may be null when only this is wanted.
  int64_t offset() const { return offset_; }
  /// The axes outside a run, innermost first: how many, their sizes, and the bytes from one index to the next.
  int axes() const { return rank_; }
  int64_t axisSize(int axis) const { return size_[static_cast<size_t>(axis)]; }
  int64_t axisStep(int axis) const { return step_[static_cast<size_t>(axis)]; }
  /// To the next run.
  void next();

private:
  char *at_ = nullptr;
  int64_t offset_ = 0;
  size_t runBytes_ = 0;
  int64_t runs_ = 1;
  int rank_ = 0; // of the axes outside a run, innermost first
  std::array<int64_t, kMaxRank> size_{}, step_{}, index_{};
};

/// Copies the elements of `from`, in row-major order, to those of `to`. As many bytes on both sides; the shapes may
/// differ. The blocks do not overlap.
void copyBlock(const CommBlock &from, const CommBlock &to);

/// The consecutive bytes of a block that is one run.
inline bool isContiguous(const CommBlock &block) { return BlockRuns(block).contiguous(); }

} // namespace opc::runtime
