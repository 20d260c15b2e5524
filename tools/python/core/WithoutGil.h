// Work that other Python threads need not wait for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <unistd.h>

namespace opc::python {

/// Runs `work` without the GIL. Taking it again when the interpreter is ending would end this thread in the middle of
/// C++ frames; it waits for the end of the process instead, as threads of Python 3.14 do.
template <class Work> auto withoutGil(Work &&work) {
  PyThreadState *const state = PyEval_SaveThread();
  const auto takeAgain = [state] {
    while (_Py_IsFinalizing()) pause();
    PyEval_RestoreThread(state);
  };
  try {
    auto result = work();
    takeAgain();
    return result;
  } catch (const std::exception &) {
    takeAgain();
    throw;
  }
}

/// The same for what ends with `work`: threads of a session give back what they have of Python when they end, and their
/// end is waited for. While the interpreter is ending they leave it, and nobody need take the GIL.
template <class Work> void endWithoutGil(Work work) {
  if (_Py_IsFinalizing()) return work();
  (void)withoutGil([&] {
    work();
    return true;
  });
}

/// A holder's deleter.
struct EndWithoutGil {
  template <class T> void operator()(T *object) const {
    endWithoutGil([object] { delete object; });
  }
};

} // namespace opc::python
