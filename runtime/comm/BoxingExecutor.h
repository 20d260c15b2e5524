// Carries out a boxing step on one tensor or on several at once, over a communicator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"

namespace opc::runtime {

struct BoxingOptions {
  /// Addends that are received are summed piece by piece: about this many bytes of scratch hold two pieces of each of
  /// the other ranks. The same on all ranks.
  int64_t scratchTarget = 4 << 20;
  /// No piece is cut smaller than this, however many ranks there are.
  int64_t leastPiece = 16 << 10;
  /// All-reduces of fewer bytes may be the engine's own.
  int64_t libraryBelow = 64 << 10;
  /// Only where that cannot change a bit: sums of integers or of two addends. False: whatever the type.
  bool deterministic = true;
};

/// One step of one or several tensors, prepared for one rank: what is sent and received, in which pieces. Sums are made
/// in the order of the ranks, in f32 for f16 and bf16 (OrderedSum.h), so the bits do not depend on the pieces or on
/// what else is in the bucket. run() allocates nothing of its own.
class BoxingExecutor {
public:
  /// `ops` have the same kind, mesh dimension, reduction and placements; shapes and types may differ. `what` names the
  /// tensors in errors: "fc1.w.grad". Errors: OPC0726, a step that the local pieces cannot be put together from, or
  /// that is unknown. A rank outside both placements gets a step that does nothing.
  static Result<BoxingExecutor> create(std::vector<BoxingOp> ops, int64_t rank, const std::string &what = "",
                                       const BoxingOptions &options = {});
  BoxingExecutor(BoxingExecutor &&);
  BoxingExecutor &operator=(BoxingExecutor &&);
  ~BoxingExecutor();

  /// Bytes of scratch that run() needs, aligned to 64.
  size_t scratchBytes() const;
  /// Bytes of the local pieces; nothing (0) where this rank is not in the placement.
  int64_t inputBytes(size_t tensor) const;
  int64_t outputBytes(size_t tensor) const;
  /// "all_reduce of fc1.w.grad, 4096 bytes, with ranks 0-3".
  const std::string &activity() const;
  /// What run() sends, by the formula: the sum of bytesSent.
  int64_t bytesSent() const;

  /// Collective over the ranks of the step. Row-major local pieces; null where this rank has none. An input may be the
  /// output for kAllReduce; otherwise memory does not overlap. Errors: the communicator's.
  Status run(Communicator &comm, int channel, const void *const *inputs, void *const *outputs, void *scratch);

private:
  struct Impl;
  explicit BoxingExecutor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Prepares and runs a step of one tensor once, with scratch of its own.
Status runBoxing(Communicator &comm, int channel, const BoxingOp &op, const void *input, void *output,
                 const BoxingOptions &options = {});

} // namespace opc::runtime
