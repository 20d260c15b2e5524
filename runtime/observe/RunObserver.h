// RunObserver: sees each task of a run with its tensors. For captures, traps and traces; a run without one pays
// nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphPlace.h"
#include "opc/Status.h"
#include "opc/Tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace opc {

/// A tensor of a task.
struct ObservedTensor {
  enum class Source { kTask, kInput, kVariable, kConstant };
  std::string name;     // "fc1/out_0"
  std::string argument; // "a"
  int32_t index = 0;    // of the argument
  user_op::TensorDesc desc;
  Source source = Source::kTask; // what makes it
  /// An input whose memory the task writes: in place, or because it updates the variable. After the task its bytes are
  /// gone.
  bool isOverwritten = false;
  /// An input that the kernel declares to write (optimizer updates).
  bool isMutable = false;
};

/// A task of the plan. Views are listed as well: nothing runs for them, but they name a tensor.
struct ObservedTask {
  int64_t rank = 0; // that runs it
  uint32_t index = 0, stream = 0;
  std::string name, type;
  GraphPlace where;
  std::string device; // "cpu"
  bool isView = false;
  bool isPrepared = false; // it runs once, before the first step
  bool isTransfer = false; // between ranks
  int64_t bytesSent = 0;   // to other ranks, each time that it runs
  std::vector<ObservedTensor> inputs, outputs;
  std::vector<std::string> ops; // of a task of several: their types, in order
};

/// The bytes of a task's tensors, in host memory. Valid during the call alone.
class TaskData {
public:
  virtual ~TaskData() = default;
  /// Row-major bytes; never nullptr for a tensor with elements. Errors: those of a copy from the device.
  virtual Result<const void *> input(size_t i) = 0;
  virtual Result<const void *> output(size_t i) = 0;
  /// Before the task runs: gives input i, which another task has made, other bytes, as many as its tensor has. Tasks
  /// that run later see them, too. Errors: those of a copy to the device.
  virtual Status replaceInput(size_t i, const void *bytes) = 0;
};

/// What a task of a graph within a task has taken in one run of that.
struct InnerTime {
  uint32_t graph = 0, index = 0; // of the task's graphs, and of the graph's tasks
  int64_t runs = 0;
  double seconds = 0; // by the clock: where threads run graphs at once, their share of it
};

/// Called around each task while a session runs. Tasks of one stream come in order; tasks of several streams and of
/// several ranks come at once, from several threads. An error ends the run, and the run reports it.
class RunObserver {
public:
  virtual ~RunObserver() = default;
  /// Before the task runs: its inputs are intact. Not called for views.
  virtual Status before(const ObservedTask &task, int64_t step, TaskData &data) {
    (void)task, (void)step, (void)data;
    return Status::ok();
  }
  /// Whether tasks that ran once, before the first step, are shown to before() and after(), too, when the next run
  /// begins: asked then. They take no time of a step.
  virtual bool wantsPrepared() const { return false; }
  /// Whether inner() is to be called: asked once, when the run begins.
  virtual bool wantsInnerTimes() const { return false; }
  /// Behind a task with graphs, before after(): its graphs' tasks, views left out.
  virtual void inner(const ObservedTask &task, int64_t step, const std::vector<InnerTime> &times) {
    (void)task, (void)step, (void)times;
  }
  /// After the task, before anything may use the memory of its outputs again.
  virtual Status after(const ObservedTask &task, int64_t step, TaskData &data) = 0;
};

} // namespace opc
