// Whatever Python calls an array: numpy's, one that speaks DLPack or the buffer protocol, numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ArrayConversion.h"

#include "opc.h"

#include <pybind11/numpy.h>

#include <string>

namespace opc::python {

/// The memory of a value, without a copy where the value offers it; holds on to it.
class AnyArray {
public:
  /// Numbers of Python, and sequences of them, become the expected type where they fit.
  AnyArray(pybind11::handle value, DataType expected, const std::string &what);
  /// Errors: OPC0702, OPC0703, OPC0704, OPC0618.
  Status check(const user_op::TensorDesc &expected, const std::string &what) const;
  /// Whether its memory can still be read: files that are mapped become shorter. Errors: OPC0702.
  Status checkThere(const std::string &what) const;
  /// Row-major, and readable in place by kernels.
  bool isReadable() const;
  const void *data() const;
  size_t bytes() const;
  Shape shape() const;
  void copyTo(void *to) const;

private:
  pybind11::object owner_;                // an array, or a capsule
  const opc_dl_tensor *dlpack_ = nullptr; // of a capsule
};

/// A tensor that Python owns and may hand on as DLPack.
pybind11::object fetchedTensor(HostTensor tensor);
void bindDlpack(pybind11::module_ &module);

} // namespace opc::python
