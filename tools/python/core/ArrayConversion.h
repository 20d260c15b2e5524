// numpy arrays and opc's tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"

#include <pybind11/numpy.h>

namespace opc::python {

/// The numpy type of an element type; bits as unsigned integers where numpy has none (bf16: uint16).
pybind11::dtype numpyType(DataType type);
/// Whether it is numpy's own array, and none of a class that is made of it: those may say more than their elements.
bool isPlainArray(pybind11::handle value);
/// Whether memory can be read up to its last byte: of a file that is mapped and has become shorter, reading would end
/// the process. Errors: OPC0702.
Status checkThere(const void *lastByte, const std::string &what);
/// The same of an array whose memory is another object's.
Status checkThere(const pybind11::array &array, const std::string &what);
/// An array as a tensor of `expected` type: exactly its dtype and shape. Errors: OPC0702, OPC0703, OPC0704.
Status checkArray(const pybind11::array &array, const user_op::TensorDesc &expected, const std::string &what);
/// Row-major and readable in place by kernels.
bool isReadable(const pybind11::array &array);
/// The elements in row-major order, bools as 0 or 1.
void copyArray(const pybind11::array &array, void *to);
/// A new array with these elements.
pybind11::array arrayOf(const user_op::TensorDesc &desc, const void *elements);
/// An array that owns the tensor's memory.
pybind11::array arrayOf(HostTensor tensor);

} // namespace opc::python
