// Finds and opens the part of opc that runs Python.
// SPDX-License-Identifier: Apache-2.0
#include "PythonModule.h"

#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace opc::python {

std::vector<std::string> pythonModuleCandidates() {
  std::vector<std::string> files;
  if (const char *named = std::getenv("OPC_PYTHON_MODULE")) return {named};
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  std::string folder = n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string("./x");
  folder.resize(folder.rfind('/'));
  for (const char *below : {"/", "/../lib/", "/../" OPC_INSTALL_LIBDIR "/"})
    files.push_back(folder + below + "libopc_python.so");
  return files;
}

namespace {

Result<KernelHost *> openModule(const HostOptions &options) {
  std::string tried;
  for (const std::string &file : pythonModuleCandidates()) {
    tried += (tried.empty() ? "" : ", ") + file;
    if (access(file.c_str(), R_OK) != 0) continue;
    // Global: numpy's modules look for Python's symbols, which come with it. Never closed: Python's state is in it.
    void *module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!module) {
      const char *error = dlerror();
      return Status(StatusCode::kUnsupported, "OPC0922",
                    "the part of opc that runs Python cannot be opened: " + std::string(error ? error : file))
          .withHelp("install Python 3 and numpy (Debian: python3-numpy, libpython3.11)");
    }
    using Open = KernelHost *(*)(const HostOptions *, Status *);
    const auto open = reinterpret_cast<Open>(dlsym(module, "opcPythonHost"));
    if (!open)
      return Status(StatusCode::kUnsupported, "OPC0922", file + " does not run Python for opc: no opcPythonHost");
    Status status;
    KernelHost *host = open(&options, &status);
    if (!host) return status;
    return host;
  }
  return Status(StatusCode::kUnsupported, "OPC0922", "the part of opc that runs Python was not found; tried " + tried)
      .withHelp("build opc with Python (Debian: python3-dev, python3-numpy), or name the file in OPC_PYTHON_MODULE");
}

} // namespace

void allowPythonFrom(const HostOptions &options) {
  setKernelHostOpener([options] { return openModule(options); });
}

} // namespace opc::python
