// opc._core.Session.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "AttrConversion.h"
#include "DlpackArrays.h"
#include "PythonErrors.h"
#include "PythonSession.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace opc::python {
namespace {

template <class List> py::list ports(const List &list) {
  py::list all;
  for (const auto &p : list)
    all.append(py::make_tuple(p.name, shapeToPython(p.desc.shape()), dataTypeName(p.desc.data_type())));
  return all;
}

std::unique_ptr<PythonSession> makeSession(std::shared_ptr<CompiledProgram> program, uint64_t seed, int threads,
                                           uint64_t maxMemory, int64_t ranks, bool codegen, bool allowNative,
                                           bool allowTf32) {
  SessionOptions options;
  options.seed = seed;
  options.threads = threads;
  options.maxMemory = maxMemory;
  options.ranks = ranks;
  options.allowNative = allowNative;
  return std::make_unique<PythonSession>(std::move(program), options, codegen, allowTf32);
}

py::dict statsOf(PythonSession &s) {
  const SessionStats stats = s.session().stats();
  py::dict d;
  d["tasks"] = stats.tasks;
  d["views"] = stats.views;
  d["prepared"] = stats.prepared;
  d["streams"] = stats.streams;
  d["arena_bytes"] = stats.arenaBytes;
  d["constant_bytes"] = stats.constantBytes;
  d["steps"] = stats.steps;
  d["native_images"] = stats.nativeImages;
  d["native_loops"] = stats.nativeRegions;
  return d;
}

} // namespace

void bindSession(py::module_ &module) {
  bindDlpack(module);
  py::class_<PythonSession>(module, "Session")
      .def(py::init(&makeSession))
      .def("run", &PythonSession::run)
      .def("fetch", [](PythonSession &s, const std::string &output) { return fetchedTensor(s.fetch(output)); })
      .def("variable", &PythonSession::variable)
      .def("set_variable", &PythonSession::setVariable)
      .def("load_variables", &PythonSession::loadVariables)
      .def("save_variables", &PythonSession::saveVariables)
      .def_property(
          "step", [](PythonSession &s) { return s.session().step(); }, &PythonSession::setStep)
      .def_property_readonly("inputs", [](PythonSession &s) { return ports(s.interface().inputs); })
      .def_property_readonly("outputs", [](PythonSession &s) { return ports(s.interface().outputs); })
      .def_property_readonly("variables", [](PythonSession &s) { return ports(s.interface().variables); })
      .def_property_readonly("stats", &statsOf);
}

} // namespace opc::python
