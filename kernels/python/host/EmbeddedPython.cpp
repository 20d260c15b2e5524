// libopc_python.so: Python inside of a program that is none, as the command opc is.
// SPDX-License-Identifier: Apache-2.0
#include "PythonKernels.h"
#include "PythonModule.h"

#include <dlfcn.h>
#include <string>
#include <unistd.h>

namespace opc::python {

namespace {

Status failed(const std::string &why) {
  return Status(StatusCode::kUnsupported, "OPC0922", "Python cannot be started: " + why)
      .withHelp("install Python 3 and numpy (Debian: python3-numpy)");
}

/// The folder of the package, beside this library: build/python of a build tree, lib/opc/python of an installation.
std::string packageFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&packageFolder), &info) || !info.dli_fname) return "";
  std::string folder = info.dli_fname;
  folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
  if (folder.empty()) folder = ".";
  for (const char *below : {"/opc/python", "/../python"})
    if (access((folder + below + "/opc/_host.py").c_str(), R_OK) == 0) return folder + below;
  return "";
}

Status startPython() {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0; // Ctrl-C is the command's
  config.parse_argv = 0;
  config.safe_path = 1;      // the working directory holds code that nobody has named
  config.write_bytecode = 0; // the folders of users stay as they are
  config.buffered_stdio = 0;
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, OPC_PYTHON_PROGRAM);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) return failed(status.err_msg ? status.err_msg : "no reason is given");
  return Status::ok();
}

/// The package can be imported, and what kernels print does not mix with what opc prints on standard output.
Status preparePython() {
  const std::string folder = packageFolder();
  if (folder.empty())
    return Status(StatusCode::kUnsupported, "OPC0922", "the Python package of opc is not beside libopc_python.so");
  PyObject *path = PySys_GetObject("path"); // borrowed
  const PyRef text = PyRef::take(PyUnicode_DecodeFSDefault(folder.c_str()));
  PyObject *errors = PySys_GetObject("stderr");
  if (!path || !text || PyList_Insert(path, 0, text.get()) < 0 || !errors || PySys_SetObject("stdout", errors) < 0)
    return failed("its module sys is not complete");
  return Status::ok();
}

} // namespace

} // namespace opc::python

extern "C" __attribute__((visibility("default"))) opc::python::KernelHost *
opcPythonHost(const opc::python::HostOptions *options, opc::Status *status) {
  using namespace opc::python;
  const bool isRunning = Py_IsInitialized(); // `opc diff` reads two graphs
  PyGILState_STATE held{};
  if (isRunning) held = PyGILState_Ensure();
  if (!isRunning) *status = startPython();
  if (!isRunning && status->isOk()) *status = preparePython();
  opc::Result<KernelHost *> host = status->isOk() ? startPythonKernels(options->folders) : *status;
  // From now on each kernel takes the GIL for itself.
  if (isRunning)
    PyGILState_Release(held);
  else if (Py_IsInitialized())
    PyEval_SaveThread();
  if (host) return *host;
  *status = host.status();
  return nullptr;
}
