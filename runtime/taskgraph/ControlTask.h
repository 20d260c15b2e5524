// Tasks whose work is graphs of their own (if, loop, batch_parts): what a plan says of them, and the kernel that runs
// them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanModel.h"
#include "RunObserver.h"

#include <memory>
#include <vector>

namespace opc::runtime {

/// A bound kernel whose graphs' tasks can be timed.
class TimedGraphs {
public:
  virtual ~TimedGraphs() = default;
  /// From now on, if not already. Runs are slower by the look at the clock around each task.
  virtual void keepTimes() = 0;
  /// Since the last call; empty where none are kept.
  virtual std::vector<InnerTime> takeTimes() = 0;
};

/// The kernel of a task of op `op`, which has been inferred. Its graphs are checked as any plan is, and must take and
/// make what the op says (OPC0826). None of them runs before the kernel is bound. `native`: the machine code of the
/// plan that has the task; may be null.
Result<std::shared_ptr<const user_op::KernelDef>> controlKernel(const plan::Task &task, const OpInstance &op,
                                                                const Registry &registry,
                                                                const std::shared_ptr<NativeImages> &native);

/// How many graphs a `batch_parts` has, each with memory of its own: one for each thread, or one for all where the
/// parts would leave threads idle for more than a quarter of the time. 1 of other tasks.
int64_t graphsOfTask(const plan::Task &task, int threads);

} // namespace opc::runtime
