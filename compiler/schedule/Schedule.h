// Task order, then buffers: which op runs when, and which memory its tensors share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MemoryPlanner.h"
#include "OpcDialect.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace opc {

/// Reorders the ops of the graph: sources first, then tasks, then outputs. Of several topological orders (the graph's
/// own, least memory first, depth first) the one with the smallest peak is kept; ties go to the first. Ops that write
/// variables run when variableOrder() allows; its errors are this function's. Boxings keep the order of their
/// `opc.order`, so that all ranks agree; what depends on one with a channel of its own comes after everything that does
/// not, so that the computation does not wait for it.
mlir::LogicalResult schedule(mlir::ModuleOp module, const Registry &registry);

enum class BufferKind { kActivation, kInput, kVariable, kConstant, kWorkspace };

struct ScheduledBuffer {
  std::string name; // of the first tensor that it holds
  BufferKind kind = BufferKind::kActivation;
  PlannedBuffer plan;   // of all slots
  uint32_t credits = 1; // slots
  uint64_t stride = 0;  // bytes from one slot to the next; 0 when there is one
};

struct ScheduledTask {
  mlir::Operation *op = nullptr;              // an opc.user_op or an opc.boxing
  const user_op::KernelDef *kernel = nullptr; // of a user op
  uint32_t stream = 0;                        // 0: the computation; else the channel of a boxing
  int workspace = -1;                         // buffer
  /// Inputs that the kernel must not see: statistics that it would update, were they variables (mayStayUnwritten).
  std::vector<bool> hidden;
};

/// Everything the plan needs: tasks in order, buffers with offsets, and each tensor's buffer.
struct ExecutionSchedule {
  std::vector<ScheduledTask> tasks;
  uint32_t streams = 1;
  std::vector<ScheduledBuffer> buffers;
  llvm::DenseMap<mlir::Value, uint32_t> bufferOf;
  MemoryPlan memory;
};

/// Selects kernels for a device and plans memory. Views share their operand's buffer; a kernel that proposes to work in
/// place does so where its operand is read for the last time, unless `inPlace` is false. Errors (no kernel) are
/// emitted.
mlir::LogicalResult planExecution(mlir::ModuleOp module, const Registry &registry, DeviceType device,
                                  ExecutionSchedule *out, bool inPlace = true, int64_t microBatches = 1);

/// The graph's ops in order.
mlir::Block &graphBlock(mlir::ModuleOp module);

} // namespace opc
