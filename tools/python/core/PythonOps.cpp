// Operators that this process defines in Python: their manifests as parts of the registry, their kernels' host.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "OpManifest.h"
#include "PluginOpeners.h"
#include "PythonErrors.h"
#include "PythonKernels.h"
#include "PythonTurn.h"
#include "RegistrySnapshot.h"

#include <chrono>
#include <map>
#include <mutex>
#include <string_view>

namespace py = pybind11;

namespace opc::python {
namespace {

constexpr std::string_view kPrefix =
    "process:"; // "process:demo::relu": the plugin that stands for an op of this process

struct Texts {
  std::mutex mutex;
  std::map<std::string, std::string> byPlugin;
};
Texts &texts() {
  static Texts &all = *new Texts;
  return all;
}

Result<LoadedPlugin> openProcessOp(const std::string &plugin) {
  const std::lock_guard lock(texts().mutex);
  LoadedPlugin loaded;
  loaded.info.path = plugin;
  loaded.info.apiVersion = OPC_SDK_API_VERSION;
  loaded.info.source = plugin.substr(kPrefix.size());
  OPC_ASSIGN_OR_RETURN(loaded.registrations, manifestOps(texts().byPlugin[plugin], plugin));
  return loaded;
}

void startOnce() {
  static KernelHost *host = nullptr;
  if (host) return;
  host = valueOf(startPythonKernels({}));
  setKernelHostOpener([] { return Result<KernelHost *>(host); });
  openPythonPlugins();
  setPluginOpener({"op of this process", [](const std::string &p) { return p.rfind(kPrefix, 0) == 0; }, openProcessOp,
                   "python", true});
}

/// An op and its gradient, as a manifest. What was known under the name is replaced for graphs made from now on.
void registerPythonOps(const std::string &name, const std::string &manifest) {
  startOnce();
  const std::string plugin = std::string(kPrefix) + name;
  check(setRegistryPart(plugin, [plugin, manifest](Registry *registry) -> Status {
    {
      const std::lock_guard lock(texts().mutex);
      texts().byPlugin[plugin] = manifest;
    }
    Result<PluginInfo> info = registry->loadPlugin(plugin);
    return info ? Status::ok() : info.status();
  }));
}

/// Seconds that `count` calls of a function with one array take from here: what the task of a kernel is measured
/// against (tools/bench_python_ops.py). takesGil: each call takes the GIL, as a thread of C's must, and gives it back.
double timeCalls(const py::object &function, const py::object &array, int64_t count, bool takesGil) {
  PyObject *arguments[2] = {nullptr, array.ptr()};
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) {
    if (takesGil) PyEval_RestoreThread(PyEval_SaveThread());
    PyObject *result = PyObject_Vectorcall(function.ptr(), arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    if (!result) throw py::error_already_set();
    Py_DECREF(result);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

void bindPythonOps(py::module_ &module) {
  module.def("register_python_ops", &registerPythonOps);
  module.def("time_calls", &timeCalls);
}

} // namespace opc::python
