// The parts of opc._core, one file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace opc::python {

void bindRegistry(pybind11::module_ &module);
void bindGraph(pybind11::module_ &module);
void bindProgram(pybind11::module_ &module);
void bindSession(pybind11::module_ &module);
void bindOptions(pybind11::module_ &module);
void bindTraining(pybind11::module_ &module);
void bindTrainingRecord(pybind11::module_ &module);
void bindPythonOps(pybind11::module_ &module);

} // namespace opc::python
