// Order and memory as passes.
// SPDX-License-Identifier: Apache-2.0
#include "Graph.h"
#include "Passes.h"
#include "Schedule.h"

using namespace mlir;

namespace opc {

#define GEN_PASS_DEF_SCHEDULEOPS
#define GEN_PASS_DEF_BATCHUPDATES
#define GEN_PASS_DEF_PLANMEMORY
#include "Passes.h.inc"

namespace {

struct ScheduleOpsPass : impl::ScheduleOpsBase<ScheduleOpsPass> {
  void runOnGraph() override {
    if (schedule(getOperation()).failed()) signalPassFailure();
  }
};

struct BatchUpdatesPass : impl::BatchUpdatesBase<BatchUpdatesPass> {
  using BatchUpdatesBase::BatchUpdatesBase;
  void runOnGraph() override {
    const DeviceType device = gpu ? DeviceType::kGPU : DeviceType::kCPU;
    if (batchUpdates(getOperation(), registryOf(&getContext()), device).failed()) signalPassFailure();
  }
};

struct PlanMemoryPass : impl::PlanMemoryBase<PlanMemoryPass> {
  void runOnGraph() override {
    ModuleOp module = getOperation();
    ExecutionSchedule execution;
    if (planExecution(module, registryOf(&getContext()), DeviceType::kCPU, &execution).failed())
      return signalPassFailure();
    Builder b(&getContext());
    for (Operation &op : graphBlock(module)) {
      SmallVector<int64_t> offsets;
      for (Value v : op.getResults())
        offsets.push_back(static_cast<int64_t>(execution.buffers[execution.bufferOf.lookup(v)].plan.offset));
      if (!offsets.empty()) op.setAttr(ir::kOffsetsAttr, b.getDenseI64ArrayAttr(offsets));
    }
    module->setAttr(ir::kArenaBytesAttr, b.getI64IntegerAttr(static_cast<int64_t>(execution.memory.arenaBytes)));
  }
};

} // namespace
} // namespace opc
