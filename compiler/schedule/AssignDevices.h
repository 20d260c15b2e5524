// Where the tasks of a graph for a GPU run, and where its tensors lie: on the device, or on the CPU beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ExecutionSchedule.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Whether the op is placed on the CPU. Boxings are not: ranks with devices exchange what lies there.
bool isOnCpu(mlir::Operation *op);
void placeOnCpu(ir::UserOp op);

/// The sides of a graph in which opc-assign-devices has placed ops and copies. On a graph for the CPU all are the
/// CPU's.
class DeviceSides {
public:
  DeviceSides(mlir::Block &block, DeviceType device);

  /// Whether there are two.
  bool areTwo() const { return areTwo_; }
  /// Where a tensor lies: what a task makes with its maker, an input, variable or constant on the CPU when all who read
  /// it are there.
  bool isOnCpu(mlir::Value v) const;
  /// The stream of a task, by its number in the plan.
  uint32_t streamOf(mlir::Operation *op) const;
  /// Whose kernels it has.
  DeviceType kernelsOf(mlir::Operation *op) const;

private:
  DeviceType device_;
  bool areTwo_ = false;
  llvm::DenseMap<mlir::Value, bool> sources_; // whether they lie on the CPU
};

/// Places ops that the device has no kernel for on the CPU, when `fallback` says so, and makes copies of the tensors
/// that one side makes and the other one reads. OPC0415 where an op writes what lies on the other side.
mlir::LogicalResult assignDevices(mlir::ModuleOp module, const Registry &registry, bool fallback);

} // namespace opc
