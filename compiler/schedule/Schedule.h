// Task order, then buffers: which op runs when, and which memory its tensors share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ExecutionSchedule.h"
#include "Registry.h"
#include "SizeSweep.h"
#include "VariableOrder.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

/// Reorders the ops of the graph: sources first, then tasks, then outputs. Of several topological orders (the graph's
/// own, least memory first, depth first) the one with the smallest peak is kept; ties go to the first. Ops that write
/// variables run when variableOrder() allows; its errors are this function's. Boxings keep the order of their
/// `opc.order`, so that all ranks agree; what depends on one with a channel of its own comes after everything that does
/// not, so that the computation does not wait for it.
mlir::LogicalResult schedule(mlir::ModuleOp module);

/// Joins updates of variables into tasks of many (opc.fused of the kind "updates"), in the order that the tasks have:
/// an update may run later than before, where that keeps no more memory alive than the graph needs, where nothing waits
/// for it, and where it need not wait for another stream. Of those that cannot, the largest stay alone.
mlir::LogicalResult batchUpdates(mlir::ModuleOp module, const Registry &registry, DeviceType device);

/// Which tasks must run before others beside those whose results they read: what writes variables, what the graph
/// orders, boxings. `ops` in a topological order of their data. Errors are those of variableOrder().
std::optional<std::vector<OpOrder>> taskOrders(const std::vector<mlir::Operation *> &ops);

/// Selects kernels for a device and plans memory. Views share their operand's buffer; a kernel that proposes to work in
/// place does so where its operand is read for the last time, unless `inPlace` is false. With `sizes` the types are
/// those of the largest sizes, and the plan serves all others. Errors (no kernel) are emitted.
mlir::LogicalResult planExecution(mlir::ModuleOp module, const Registry &registry, DeviceType device,
                                  ExecutionSchedule *out, bool inPlace = true, int64_t microBatches = 1,
                                  const SizeFacts *sizes = nullptr);

} // namespace opc
