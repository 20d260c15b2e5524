// opc._core: what the package opc takes from C++.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"
#include "Codegen.h"

#include "opc/Version.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiler and executor behind the package opc; its functions are the package's own affair.";
  module.attr("version") = OPC_VERSION_STRING;
  const std::shared_ptr<opc::RegionCodegen> compiler = opc::RegionCodegen::forThisMachine();
  auto cache = opc::codegen::CodeCache::ofEnvironment();
  if (compiler && cache && *cache) compiler->setCache(std::move(*cache)); // one that is refused is left alone
  opc::setRegionCompiler(compiler);
  opc::python::bindRegistry(module);
  opc::python::bindGraph(module);
  opc::python::bindProgram(module);
  opc::python::bindSession(module);
  opc::python::bindOptions(module);
  opc::python::bindTraining(module);
  opc::python::bindPythonOps(module);
}
