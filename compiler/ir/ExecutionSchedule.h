// What a plan is written from: tasks in order, and the memory of their tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Batch.h"
#include "MemoryPlanner.h"
#include "OpcDialect.h"
#include "Region.h"

#include <optional>
#include <string>
#include <vector>

namespace opc {

enum class BufferKind { kActivation, kInput, kVariable, kConstant, kWorkspace, kPrepared };
/// Where a buffer lies, and which stream computes there. A graph for the CPU has one arena, the device's.
enum class BufferArena : uint32_t { kDevice, kCpu };

/// The streams of a plan whose tasks run on a device and on the CPU. Those of channels follow, all on every rank alike.
enum class DeviceStream : uint32_t { kDevice, kCpu, kToDevice, kToCpu, kFirstChannel };

struct ScheduledBuffer {
  std::string name; // of the first tensor that it holds
  BufferKind kind = BufferKind::kActivation;
  BufferArena arena = BufferArena::kDevice;
  PlannedBuffer plan;   // of all slots
  uint32_t credits = 1; // slots
  uint64_t stride = 0;  // bytes from one slot to the next; 0 when there is one
};

struct ScheduledTask {
  mlir::Operation *op = nullptr;              // an opc.user_op, an opc.boxing or an opc.fused
  const user_op::KernelDef *kernel = nullptr; // of a user op
  uint32_t stream = 0;                        // 0: the computation; else a boxing's channel, or a DeviceStream
  std::shared_ptr<const Region> region;       // of an opc.fused
  std::shared_ptr<const Batch> batch;         // of an opc.fused of updates
  int workspace = -1;                         // buffer
  uint64_t graphBytes = 0;                    // memory of its graphs, beside the arena; of one thread
  /// Inputs that the kernel must not see: statistics that it would update, were they variables (mayStayUnwritten).
  std::vector<bool> hidden;
};

/// Everything the plan needs: tasks in order, buffers with offsets, and each tensor's buffer.
struct ExecutionSchedule {
  std::string device = "cpu"; // as plans name it
  std::vector<ScheduledTask> tasks;
  uint32_t streams = 1;
  std::vector<ScheduledBuffer> buffers;
  llvm::DenseMap<mlir::Value, uint32_t> bufferOf;
  MemoryPlan memory; // of the device
  /// Beside a device: of tasks on the CPU, and of copies.
  std::optional<MemoryPlan> cpuMemory;
};

} // namespace opc
