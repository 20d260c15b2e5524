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

} // namespace opc::python
