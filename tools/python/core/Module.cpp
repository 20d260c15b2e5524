// opc._core: what the package opc takes from C++.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"
#include "Codegen.h"

#include "opc/Version.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiler and executor behind the package opc; its functions are the package's own affair.";
  module.attr("version") = OPC_VERSION_STRING;
  opc::setRegionCompiler(opc::RegionCodegen::forThisMachine());
  opc::python::bindRegistry(module);
  opc::python::bindGraph(module);
  opc::python::bindProgram(module);
  opc::python::bindSession(module);
  opc::python::bindOptions(module);
  opc::python::bindTraining(module);
  opc::python::bindPythonOps(module);
}
