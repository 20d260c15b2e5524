// What ops cost, and which of them are worth hiding communication behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceSpeed.h"
#include "OpInstance.h"
#include "OpcDialect.h"

#include "mlir/IR/Block.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace opc {

/// Seconds of an op on a device, as the simulation has them. Views are not executed and take none.
double opSeconds(const OpInstance &op, const DeviceSpeed &device);

/// The ops with so much arithmetic for their bytes that communication hides behind them (contractions), and those on
/// which one of them depends. What is in neither is the end of a step: updates, outputs.
class HeavyOps {
public:
  explicit HeavyOps(mlir::Block &block);
  bool isHeavy(mlir::Operation *op) const { return heavy_.contains(op); }
  /// Whether a heavy op depends on the op's results.
  bool leadsToHeavy(mlir::Operation *op) const { return leads_.contains(op); }
  bool isBeforeLastHeavy(mlir::Operation *op) const {
    auto it = position_.find(op);
    return it != position_.end() && it->second < lastHeavy_;
  }
  /// Whether every reader of the tensor is neither heavy nor leads to one, while a heavy op that does not need the
  /// tensor comes after it in the block.
  bool mayWait(mlir::Value tensor) const;

private:
  llvm::DenseSet<mlir::Operation *> heavy_, leads_;
  llvm::DenseMap<mlir::Operation *, uint32_t> position_;
  uint32_t lastHeavy_ = 0;
};

} // namespace opc
