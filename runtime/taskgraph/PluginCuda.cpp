// Plugins' kernels that go through CUDA's runtime library, on the simulated GPU.
// SPDX-License-Identifier: Apache-2.0
#include "PluginCuda.h"
#include "KernelTask.h"
#include "cuda/CudaDevice.h"

#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

namespace opc::runtime {

namespace {

/// The file of the program or library that an address is in.
std::string fileOf(const void *address) {
  Dl_info info{};
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}
/// Without links: one folder has one name.
std::string folderOf(const std::string &file) {
  std::error_code ignored;
  return std::filesystem::weakly_canonical(file, ignored).parent_path();
}

/// Whether nvcc has put device code into a library, which its CUDA runtime loads: there is a section for it.
bool hasDeviceCode(const std::string &library) {
  std::ifstream in(library, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return bytes.find(".nvFatBinSegment") != std::string::npos;
}

/// What is wrong with a library's CUDA runtime for a simulator, whose driver has this path.
Status wrongRuntime(const std::string &library, const std::string &driver) {
  const bool isOwn = library == fileOf(reinterpret_cast<const void *>(&checkCudaRuntimeOf));
  if (library.empty() || isOwn || !hasDeviceCode(library)) return Status::ok();
  void *const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!opened) return Status::ok();                         // the program itself
  void *const function = dlsym(opened, "cudaGetLastError"); // its own, or that of what it is linked with
  dlclose(opened);
  if (!function)
    return Status(StatusCode::kUnsupported, "OPC0633", "has a CUDA runtime of its own inside")
        .withHelp("link it with the shared one: nvcc -cudart shared, or opc sdk --ldflags --cuda");
  const std::string runtime = fileOf(function);
  if (folderOf(runtime) == folderOf(driver)) return Status::ok();
  return Status(StatusCode::kUnsupported, "OPC0633", "was loaded with the CUDA runtime " + runtime)
      .withHelp("opc --device sim brings the simulator's; for other programs set LD_LIBRARY_PATH=" + folderOf(driver) +
                " before they start");
}

} // namespace

Status checkCudaRuntimeOf(const KernelTask &task, const Device &device) {
  const cuda::CudaDriver *simulator = simulatorOf(device);
  if (!simulator || !task.kernel()) return Status::ok();
  // Where its virtual functions are is where the kernel is.
  const std::string library = fileOf(*reinterpret_cast<const void *const *>(task.kernel()));
  static std::mutex mutex;
  static std::map<std::string, Status> known; // a process has one simulator
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(library);
  if (found == known.end()) {
    found = known.emplace(library, wrongRuntime(library, cuda::CudaDriver::path(true))).first;
  }
  const Status &wrong = found->second;
  if (wrong.isOk()) return Status::ok();
  return Status(wrong.code(), wrong.id(),
                task.op().def().name + ": the plugin " + library + " " + wrong.message() +
                    ", and what it launches does not reach " + device.name())
      .withHelp(wrong.help());
}

} // namespace opc::runtime
