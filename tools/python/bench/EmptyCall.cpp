// The peer of a one-op run: a pybind11 function that takes an array and gives one.
// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>

#include <cstring>

namespace py = pybind11;

PYBIND11_MODULE(empty_call, module) {
  module.def("pass", [](const py::array_t<float> &in) {
    py::array_t<float> out(in.size());
    std::memcpy(out.mutable_data(), in.data(), static_cast<size_t>(in.nbytes()));
    return out;
  });
}
