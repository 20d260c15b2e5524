// Opening CUDA's driver, and its errors.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/CudaDriver.h"

#include <algorithm>
#include <atomic>
#include <dlfcn.h>
#include <unistd.h>

namespace opc::runtime::cuda {
namespace {

// The PTX of this build says .version 9.0, which drivers of CUDA 13 and later read.
constexpr int kLeastVersion = 13000;

Status notUsable(std::string message, std::string help) {
  return Status(StatusCode::kUnsupported, "OPC0630", std::move(message)).withHelp(std::move(help));
}

std::string programFolder() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  std::string folder = n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string("./x");
  folder.resize(folder.rfind('/'));
  return folder;
}

std::atomic<const CudaDriver *> usedSimulator{nullptr};

/// Of the file that this code has come in.
std::string libraryFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(&libraryFolder), &info) || !info.dli_fname) return ".";
  const std::string file = info.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

} // namespace

std::string cudaVersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string CudaDriver::path(bool isSimulator) {
  if (!isSimulator) return "libcuda.so.1";
  // Beside the program; where that is another one, such as Python, beside the library that this is part of: python/opc/
  // of a build, lib/python3/dist-packages/opc/ of an installation.
  const std::string folder = programFolder(), library = libraryFolder();
  std::string first;
  for (const std::string &below : {folder + "/../lib/", folder + "/../" OPC_INSTALL_LIBDIR "/", library + "/",
                                   library + "/../../lib/", library + "/../../../"}) {
    const std::string file = below + "opc/gpusim/libcuda.so.1";
    if (access(file.c_str(), R_OK) == 0) return file;
    if (first.empty()) first = file;
  }
  return first;
}

Result<const CudaDriver *> CudaDriver::open(bool isSimulator) {
  struct Opened {
    CudaDriver driver;
    Status status;
    pid_t process = getpid();
    explicit Opened(bool simulator) : status(driver.load(simulator)) {}
    Result<const CudaDriver *> get() const {
      if (!status.isOk()) return status;
      if (process != getpid())
        return notUsable(
            "CUDA was opened before fork(), and does not go on in the child",
            "use devices in one of the two processes, or start the other one anew (multiprocessing: spawn)");
      return &driver;
    }
  };
  // A driver is never closed: it has threads and state of its own. The system's comes first in any case: looked up by
  // its name after the simulator, which has the same, it would be that.
  static Opened &system = *new Opened(false);
  if (!isSimulator) return system.get();
  static Opened &simulator = *new Opened(true);
  if (simulator.status.isOk()) usedSimulator = &simulator.driver;
  return simulator.get();
}

const CudaDriver *CudaDriver::openedSimulator() { return usedSimulator; }

Status CudaDriver::load(bool isSimulator) {
  isSimulator_ = isSimulator;
  const std::string file = path(isSimulator);
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *error = dlerror();
    if (isSimulator)
      return notUsable("the GPU simulator is not in this build: " + file + " cannot be opened",
                       "build the target opc_gpusim_cuda, or give the graph to the CPU: --device cpu");
    return notUsable("this machine has no CUDA driver: " + std::string(error ? error : file),
                     "install NVIDIA's driver (it brings libcuda.so.1), or give the graph to the CPU: --device cpu");
  }
  const char *missing = nullptr;
#define OPC_LOAD(member, name, parameters)                                                                             \
  member = reinterpret_cast<CuResult(*) parameters>(dlsym(library, name));                                             \
  if (!member && !missing) missing = name;
  OPC_CUDA_FUNCTIONS(OPC_LOAD)
#undef OPC_LOAD
  if (isSimulator) {
    report_ = reinterpret_cast<size_t (*)(char *, size_t)>(dlsym(library, "opcGpusimReport"));
    findings_ = reinterpret_cast<size_t (*)()>(dlsym(library, "opcGpusimFindings"));
    errors_ = reinterpret_cast<size_t (*)()>(dlsym(library, "opcGpusimErrors"));
    print_ = reinterpret_cast<void (*)(int)>(dlsym(library, "opcGpusimPrint"));
  }
  if (missing)
    return notUsable("the CUDA driver " + file + " is too old: it has no " + missing,
                     "install NVIDIA's driver for CUDA " + cudaVersionText(kLeastVersion) + " or later");
  const std::string help =
      isSimulator
          ? "see whether CUDA_SIM is as docs/gpu-simulator.md has it, or give the graph to the CPU: --device cpu"
          : "see whether nvidia-smi lists a GPU, or give the graph to the CPU: --device cpu";
  if (const CuResult r = init(0); r != kSuccess)
    return notUsable(r == kNoDevice ? "the CUDA driver finds no GPU: " + text(r)
                                    : "the CUDA driver cannot be used: " + text(r),
                     help);
  if (driverGetVersion(&version_) == kSuccess && version_ < kLeastVersion)
    return notUsable("the CUDA driver is too old: it is for CUDA " + cudaVersionText(version_) +
                         ", and the kernels of opc need " + cudaVersionText(kLeastVersion),
                     "install NVIDIA's driver for CUDA " + cudaVersionText(kLeastVersion) + " or later");
  if (const CuResult r = deviceGetCount(&devices_); r != kSuccess || devices_ == 0)
    return notUsable("the CUDA driver finds no GPU" + (r == kSuccess ? std::string() : ": " + text(r)), help);
  return Status();
}

std::string CudaDriver::simulatorReport() const {
  std::string text(report_ ? report_(nullptr, 0) : 0, '\0');
  if (report_) text.resize(std::min(text.size(), report_(text.data(), text.size())));
  return text;
}

void CudaDriver::setPrints(bool prints) const {
  if (print_) print_(prints);
}

void CudaDriver::openSimulatedRuntime() {
  if (!open(true)) return; // whoever runs something says why
  const std::string driver = path(true);
  dlopen((driver.substr(0, driver.rfind('/') + 1) + "libcudart.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string CudaDriver::text(CuResult result) const {
  const char *name = nullptr, *meaning = nullptr;
  if (getErrorName && getErrorName(result, &name) != kSuccess) name = nullptr;
  if (getErrorString && getErrorString(result, &meaning) != kSuccess) meaning = nullptr;
  return (name ? std::string(name) : std::string("CUDA error")) + " (" + std::to_string(result) + ")" +
         (meaning ? ": " + std::string(meaning) : "");
}

Status CudaDriver::failure(CuResult result, const std::string &what) const {
  return Status(StatusCode::kExecution, "OPC0631", what + ": " + text(result));
}

} // namespace opc::runtime::cuda
