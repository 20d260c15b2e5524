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
/// An array as a tensor of `expected` type: exactly its dtype and shape. Errors: OPC0703, OPC0704.
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
