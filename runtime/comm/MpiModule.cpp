// Finds and opens the MPI engine.
// SPDX-License-Identifier: Apache-2.0
#include "MpiModule.h"

#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace opc::runtime {

std::vector<std::string> mpiModuleCandidates() {
  std::vector<std::string> files;
  if (const char *named = std::getenv("OPC_MPI_MODULE")) return {named};
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  std::string folder = n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string("./x");
  folder.resize(folder.rfind('/'));
  for (const char *below : {"/", "/../lib/", "/../" OPC_INSTALL_LIBDIR "/"})
    files.push_back(folder + below + "libopc_mpi.so");
  return files;
}

Result<std::unique_ptr<Communicator>> mpiCommunicator(const MpiOptions &options) {
  std::string tried, why;
  for (const std::string &file : mpiModuleCandidates()) {
    tried += (tried.empty() ? "" : ", ") + file;
    if (access(file.c_str(), R_OK) != 0) continue;
    // Global: MPI's own plugins look for its symbols. Never closed: MPI cannot be initialized twice in a process.
    void *module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!module) {
      const char *error = dlerror();
      return std::move(Status(StatusCode::kUnsupported, "OPC0725",
                              "the MPI engine cannot be opened: " + std::string(error ? error : file)))
          .withHelp("install Open MPI (Debian: openmpi-bin)");
    }
    using Create = Communicator *(*)(const MpiOptions *, Status *);
    const auto create = reinterpret_cast<Create>(dlsym(module, "opcMpiCommunicator"));
    if (!create)
      return Status(StatusCode::kUnsupported, "OPC0725",
                    file + " is no MPI engine of opc: it has no opcMpiCommunicator");
    Status status;
    std::unique_ptr<Communicator> comm(create(&options, &status));
    if (!comm) return status;
    return comm;
  }
  return std::move(Status(StatusCode::kUnsupported, "OPC0725", "the MPI engine was not found; tried " + tried))
      .withHelp(
          "build opc with Open MPI (Debian: libopenmpi-dev), or name the file in OPC_MPI_MODULE; --in-process runs "
          "the ranks as threads");
}

} // namespace opc::runtime
