// An owned reference to a Python object. Every object that this folder holds is in one: references that are counted by
// hand leak where an error leaves early.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace opc::python {

class PyRef {
public:
  PyRef() = default;
  /// Takes over a new reference; null stays null.
  static PyRef take(PyObject *object) { return PyRef(object); }
  static PyRef share(PyObject *object) { return Py_XINCREF(object), PyRef(object); }
  PyRef(PyRef &&o) noexcept : object_(std::exchange(o.object_, nullptr)) {}
  PyRef &operator=(PyRef &&o) noexcept {
    PyObject *old = std::exchange(object_, std::exchange(o.object_, nullptr));
    Py_XDECREF(old);
    return *this;
  }
  PyRef(const PyRef &) = delete;
  PyRef &operator=(const PyRef &) = delete;
  /// The GIL must be held.
  ~PyRef() { Py_XDECREF(object_); }

  PyObject *get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  PyObject *release() { return std::exchange(object_, nullptr); }

private:
  explicit PyRef(PyObject *object) : object_(object) {}
  PyObject *object_ = nullptr;
};

} // namespace opc::python
