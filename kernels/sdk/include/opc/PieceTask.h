// Kernels whose work is in pieces that do not depend on each other: several of them can be one task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

namespace opc::user_op {

/// The bound form of such a kernel. A piece is some thousand elements, or fewer at the end of a tensor. What a piece
/// computes depends on nothing that another piece writes.
class PieceTask : public BoundKernel {
public:
  /// Fewer pieces than this are not worth a thread.
  static constexpr int64_t kGrain = 8;

  virtual int64_t Pieces() const = 0;
  /// Computes pieces [begin, end), begin < end. Several threads may call it at once.
  virtual void RunPieces(int64_t begin, int64_t end) const = 0;
  void Run(DeviceCtx *ctx) override {
    ctx->parallelFor(Pieces(), kGrain, [this](int64_t begin, int64_t end) { RunPieces(begin, end); });
  }
};

/// An OpKernel that says that its Bind gives a PieceTask, for an op that has no outputs and updates variables: the
/// updates of a model become one task. It has no workspace and no state.
class PieceKernel {
public:
  virtual ~PieceKernel() = default;
};

} // namespace opc::user_op
