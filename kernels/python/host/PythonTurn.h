// Whose turn it is to run Python: one kernel at a time, in the order in which they came.
//
// The thread of the session that has the turn runs the kernel itself: handing the call to a thread of Python's own
// costs two wake-ups, forty times the call of a small kernel. What such a thread is for remains: calls are served in
// order, one after the other, and nobody waits for the GIL that is not next.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PyRef.h"

#include "opc/Status.h"

#include <cstdint>
#include <string>

namespace opc::python {

/// The turn and the GIL, while it lives. Does not nest: a thread that is inside a kernel gets OPC0625.
class PythonTurn {
public:
  explicit PythonTurn(const std::string &op);
  ~PythonTurn();
  PythonTurn(const PythonTurn &) = delete;
  PythonTurn &operator=(const PythonTurn &) = delete;
  /// Without it nothing of Python may be touched: OPC0625, or OPC0922 when Python is ending.
  const Status &status() const { return status_; }
  /// This thread makes its next turn at once, and nothing else before it: the turn and the GIL are left to that one,
  /// unless another thread waits for its own.
  void leaveToNext() { leaves_ = true; }

private:
  PyThreadState *released_ = nullptr;
  Status status_;
  bool has_ = false, leaves_ = false;
};

/// For objects that are given back: takes the GIL without a turn, also inside a kernel. False when Python has ended.
class GilForRelease {
public:
  GilForRelease();
  ~GilForRelease();
  GilForRelease(const GilForRelease &) = delete;
  GilForRelease &operator=(const GilForRelease &) = delete;
  explicit operator bool() const { return has_; }

private:
  PyGILState_STATE state_;
  bool has_ = false;
};

/// OPC0625 when this thread is inside a Python kernel, or was started by one that still runs.
Status refuseInsideKernel();

/// A call of a kernel: its op, empty outside of kernels, and its turn.
struct RunningKernel {
  std::string op;
  uint32_t turn = 0;
};
/// That of this thread, which threads that it starts are told: they are inside while the call runs.
RunningKernel runningKernel();
void startedInKernel(const RunningKernel &call);

/// Around fork(), with the GIL held: waits until no kernel runs and lets none begin; goes on in the parent; begins
/// afresh in the child, where no other thread is left.
void beforeFork();
void afterForkInParent();
void afterForkInChild();

/// Python is ending: waits until no kernel runs; whoever wants a turn afterwards is refused.
void closePython();

} // namespace opc::python
