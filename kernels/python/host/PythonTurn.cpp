// Whose turn it is to run Python.
// SPDX-License-Identifier: Apache-2.0
#include "PythonTurn.h"

#include <atomic>
#include <new>

namespace opc::python {

namespace {

/// Numbers that are drawn and called. Each waits where its own number is called, so that nobody else is woken.
struct Queue {
  static constexpr uint32_t kPlaces = 64;
  std::atomic<uint32_t> next{0}, serving{0};
  std::atomic<uint32_t> calls[kPlaces] = {}; // of the numbers n, n + kPlaces, ...
  std::atomic<bool> closed{false};

  void enter() {
    const uint32_t mine = next.fetch_add(1);
    std::atomic<uint32_t> &place = calls[mine % kPlaces];
    for (uint32_t seen = place.load(); serving.load() != mine; seen = place.load()) {
      // Called between the two loads: `place` has changed, and does not wait.
      place.wait(seen);
    }
  }
  /// By who has the turn.
  bool isAwaited() const { return next.load() != serving.load(std::memory_order_relaxed) + 1; }
  void leave() {
    const uint32_t called = serving.load(std::memory_order_relaxed) + 1; // only who has the turn writes it
    serving.store(called);
    if (next.load() == called) return; // who draws it from now on sees that it is called
    calls[called % kPlaces].fetch_add(1);
    calls[called % kPlaces].notify_all();
  }
};
Queue queue;

thread_local const std::string *insideOp = nullptr; // the op whose kernel this thread is in
thread_local RunningKernel startedBy;               // the kernel call that has started this thread, if one has
thread_local bool wasStarted = false;               // startedBy counts
thread_local bool wasLeft = false;                  // this thread has the turn and the GIL of the task before
thread_local bool forking = false;                  // beforeFork() has taken the turn

/// The op in whose kernel this thread is, or whose kernel has started it and still runs: it may wait for this thread.
const std::string *kernelOfThread() {
  if (insideOp || !wasStarted) [[likely]]
    return insideOp;
  return queue.serving.load() == startedBy.turn ? &startedBy.op : nullptr;
}

bool isFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

/// Python's record of this thread: its own, or one that is made once and lives as long as the thread.
struct ThreadRecord {
  PyThreadState *made = nullptr;
  ~ThreadRecord() {
    if (!made || queue.closed || !Py_IsInitialized() || isFinalizing()) return;
    PyEval_RestoreThread(made);
    PyThreadState_Clear(made);
    PyThreadState_DeleteCurrent();
  }
};
thread_local ThreadRecord record;

PyThreadState *threadState() {
  if (PyThreadState *own = PyGILState_GetThisThreadState()) return own;
  return record.made = PyThreadState_New(PyInterpreterState_Main());
}

bool holdsGil(PyThreadState *own) {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked() == own;
#else
  return _PyThreadState_UncheckedGet() == own;
#endif
}

Status refused(const std::string &op) {
  return Status(StatusCode::kExecution, "OPC0625", "opc is called inside the kernel of op '" + op + "'")
      .withHelp("a kernel runs while a graph runs, and cannot run another one: make what it needs an op of the graph");
}

} // namespace

PythonTurn::PythonTurn(const std::string &op) {
  if (const std::string *within = kernelOfThread()) [[unlikely]] {
    status_ = refused(*within);
    return;
  }
  if (std::exchange(wasLeft, false)) {
    insideOp = &op;
    has_ = true;
    return;
  }
  PyThreadState *own = threadState();
  // Whoever waits for the turn must not keep Python from the one that has it.
  if (holdsGil(own)) released_ = PyEval_SaveThread();
  queue.enter();
  if (queue.closed.load(std::memory_order_relaxed)) [[unlikely]] {
    queue.leave();
    status_ = Status(StatusCode::kExecution, "OPC0922", "Python is ending, and op '" + op + "' cannot run any more");
    return;
  }
  PyEval_RestoreThread(own);
  insideOp = &op;
  has_ = true;
}

PythonTurn::~PythonTurn() {
  if (has_) {
    insideOp = nullptr;
    if (leaves_ && !released_ && !queue.isAwaited()) {
      wasLeft = true;
      return;
    }
    PyEval_SaveThread();
    queue.leave();
  }
  if (released_) PyEval_RestoreThread(released_);
}

GilForRelease::GilForRelease() {
  if (queue.closed || !Py_IsInitialized() || isFinalizing()) return;
  state_ = PyGILState_Ensure();
  has_ = true;
}
GilForRelease::~GilForRelease() {
  if (has_) PyGILState_Release(state_);
}

Status refuseInsideKernel() {
  const std::string *within = kernelOfThread();
  return within ? refused(*within) : Status::ok();
}

RunningKernel runningKernel() {
  const std::string *within = kernelOfThread();
  return within ? RunningKernel{*within, queue.serving.load()} : RunningKernel{};
}
void startedInKernel(const RunningKernel &call) {
  startedBy = call;
  wasStarted = true;
}

void beforeFork() {
  if (kernelOfThread() || forking) return; // a kernel that forks has the turn already
  PyThreadState *saved = PyEval_SaveThread();
  queue.enter();
  PyEval_RestoreThread(saved);
  forking = true;
}
void afterForkInParent() {
  if (!std::exchange(forking, false)) return;
  queue.leave();
}
void afterForkInChild() {
  forking = false;
  // The waiting threads are gone, and what they had drawn with them.
  new (&queue) Queue;
  wasStarted = false;
  if (insideOp) queue.enter();
}

void closePython() {
  if (kernelOfThread() || queue.closed) return;
  PyThreadState *saved = PyEval_SaveThread();
  queue.enter();
  queue.closed = true;
  queue.leave();
  PyEval_RestoreThread(saved);
}

} // namespace opc::python
