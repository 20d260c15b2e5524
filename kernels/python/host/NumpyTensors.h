// Tensors as numpy's arrays, over numpy's C interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PyRef.h"

#include "opc/Attr.h"
#include "opc/Tensor.h"

#include <string>
#include <vector>

namespace opc::python {

/// Once, with the GIL, before anything else here. Errors: OPC0922 when there is no numpy.
Status openNumpy();

/// numpy's number of an element type; -1 when numpy has none (bf16, fp8).
int numpyNumber(DataType type);
/// numpy's dtype of an element type; null with a Python error when there is none.
PyRef numpyDtype(DataType type);

/// An array over a tensor's memory: no copy, no ownership.
PyRef arrayOver(const user_op::TensorDesc &desc, void *data, bool writable);

/// Where a result goes, with what is asked of every result worked out.
class CopyTarget {
public:
  CopyTarget() = default;
  CopyTarget(const user_op::TensorDesc &desc, void *data);
  /// store() for what most kernels return, a contiguous array of the right shape and type; false when it is another
  /// one.
  bool take(PyObject *value) const;
  /// Python has ended: its objects are gone.
  void abandon() { dtype_.release(); }

private:
  std::vector<int64_t> dims_;
  void *data_ = nullptr;
  size_t bytes_ = 0;
  PyRef dtype_; // numpy's one object for this type
};

/// Copies what a kernel has returned into an output after checking type, shape and element type. Errors: OPC0623.
Status store(PyObject *value, const user_op::TensorDesc &desc, void *data, const std::string &output);

/// Whether the value is an array with elements between the lowest and the highest of which are some of these bytes.
bool touches(PyObject *value, const void *data, size_t bytes);
/// Row-major, with memory of its own; null with a Python error.
PyRef copied(PyObject *array);

/// An attribute's value as a kernel gets it: int, float, bool, str, tuple, dtype; "bf16" where numpy has no such type.
PyRef pythonValue(const AttrValue &value);
/// A tensor's description as opc.Spec.
PyRef pythonSpec(PyObject *specType, const user_op::TensorDesc &desc);
/// The inverse; anything with shape and dtype will do. Errors: OPC0923.
Result<user_op::TensorDesc> descOfSpec(PyObject *spec, const std::string &what);

} // namespace opc::python
