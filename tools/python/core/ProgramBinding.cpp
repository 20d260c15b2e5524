// Compiling from Python: text of a graph in, a plan out, with the findings as exceptions.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "CompiledProgram.h"
#include "Pipeline.h"
#include "PythonErrors.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace opc::python {
namespace {

[[noreturn]] void raiseFindings(const Pipeline &pipeline) {
  raise(pipeline.diagnostics(), pipeline.errorCount(), pipeline.errorClass(), pipeline.source());
}

std::shared_ptr<CompiledProgram> compile(const std::string &name, std::string bytes, const CompileOptions &options) {
  const RegistryPtr registry = currentRegistry();
  Pipeline pipeline(*registry, options);
  std::string plan;
  {
    const py::gil_scoped_release others;
    if (pipeline.import(name, std::move(bytes)) && pipeline.run(Phase::kPlan)) plan = pipeline.emit(Emit::kPlan);
  }
  if (plan.empty()) raiseFindings(pipeline);
  warn(pipeline.diagnostics(), pipeline.source());
  return std::make_shared<CompiledProgram>(CompiledProgram{registry, std::move(plan)});
}

} // namespace

void bindProgram(py::module_ &module) {
  py::class_<CompiledProgram, std::shared_ptr<CompiledProgram>>(module, "CompiledProgram")
      .def(py::init([](const py::bytes &plan) {
        return std::make_shared<CompiledProgram>(CompiledProgram{currentRegistry(), std::string(plan)});
      }))
      .def_property_readonly("plan", [](const CompiledProgram &program) { return py::bytes(program.plan); });
  py::class_<CompileOptions>(module, "CompileOptions")
      .def(py::init<>())
      .def_readwrite("shapes", &CompileOptions::shapes)
      .def_readwrite("max_errors", &CompileOptions::maxErrors)
      .def_readwrite("simplify", &CompileOptions::simplify)
      .def_readwrite("fuse", &CompileOptions::fuse)
      .def_readwrite("train", &CompileOptions::train);
  module.def("compile", &compile);
}

} // namespace opc::python
