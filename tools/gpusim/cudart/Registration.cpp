// What nvcc's code calls by itself: registration before main, `<<<>>>`, kernels by their host functions.
// SPDX-License-Identifier: Apache-2.0
#include "RuntimeState.h"

#include <algorithm>
#include <cstdio>

namespace opc::gpusim::cudart {
namespace {

struct Dim {
  unsigned x, y, z;
};

struct Configuration {
  Dim grid, block;
  size_t shared;
  Stream *stream;
};

std::vector<Configuration> &configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

struct RuntimeLaunchConfig {
  Dim grid, block;
  size_t sharedBytes;
  Stream *stream;
  void *attributes;
  unsigned attributeCount;
};

/// The state's lock is held.
int load(Fatbin &fatbin) {
  if (!fatbin.library && !fatbin.error)
    fatbin.error = cuLibraryLoadData(&fatbin.library, fatbin.wrapper, nullptr, nullptr, 0, nullptr, nullptr, 0);
  return fatbin.error;
}

int launch(CuKernel *kernel, Dim grid, Dim block, void **arguments, size_t shared, Stream *stream) {
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z ||
      uint64_t(block.x) * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535 || block.z > 64) {
    std::fprintf(stderr,
                 "gpusim: error 9 (cudaErrorInvalidConfiguration): a launch of (%u, %u, %u) blocks of (%u, %u, %u) "
                 "threads\n",
                 grid.x, grid.y, grid.z, block.x, block.y, block.z);
    return kInvalidConfiguration;
  }
  void *none[1] = {};
  return cuLaunchKernel(reinterpret_cast<CuFunction *>(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                        static_cast<unsigned>(shared), stream, arguments ? arguments : none, nullptr);
}

} // namespace

RuntimeState &RuntimeState::instance() {
  static auto *state = new RuntimeState; // for ever: binaries unregister at exit
  return *state;
}

int kernelOf(const void *function, CuKernel **kernel) {
  RuntimeState &state = RuntimeState::instance();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.functions.find(function);
  if (found == state.functions.end()) return kInvalidDeviceFunction;
  if (const int r = load(*found->second.fatbin)) return r;
  const int r = cuLibraryGetKernel(kernel, found->second.fatbin->library, found->second.name.c_str());
  return r == kNotFound ? kInvalidDeviceFunction : r;
}

int variableOf(const void *symbol, DevicePtr *pointer, size_t *bytes) {
  RuntimeState &state = RuntimeState::instance();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto found = state.variables.find(symbol);
  if (found == state.variables.end()) return kInvalidSymbol;
  if (const int r = load(*found->second.fatbin)) return r;
  const int r = cuLibraryGetGlobal(pointer, bytes, found->second.fatbin->library, found->second.name.c_str());
  return r == kNotFound ? kInvalidSymbol : r;
}

GPUSIM_RUNTIME void **__cudaRegisterFatBinary(void *wrapper) {
  RuntimeState &state = RuntimeState::instance();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.fatbins.push_back(std::make_unique<Fatbin>());
  state.fatbins.back()->wrapper = wrapper;
  return reinterpret_cast<void **>(state.fatbins.back().get());
}

GPUSIM_RUNTIME void __cudaRegisterFatBinaryEnd(void **) {}

GPUSIM_RUNTIME void __cudaUnregisterFatBinary(void **handle) {
  RuntimeState &state = RuntimeState::instance();
  const std::lock_guard<std::mutex> lock(state.mutex);
  auto *fatbin = reinterpret_cast<Fatbin *>(handle);
  const auto gone = [&](const auto &entry) { return entry.second.fatbin == fatbin; };
  std::erase_if(state.functions, gone);
  std::erase_if(state.variables, gone);
  if (fatbin->library) cuLibraryUnload(fatbin->library);
  std::erase_if(state.fatbins, [&](const auto &f) { return f.get() == fatbin; });
}

GPUSIM_RUNTIME void __cudaRegisterFunction(void **handle, const char *function, char *, const char *name, int, void *,
                                           void *, void *, void *, int *) {
  RuntimeState &state = RuntimeState::instance();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.functions[function] = {reinterpret_cast<Fatbin *>(handle), name};
}

GPUSIM_RUNTIME void __cudaRegisterVar(void **handle, char *variable, char *, const char *name, int, size_t, int, int) {
  RuntimeState &state = RuntimeState::instance();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.variables[variable] = {reinterpret_cast<Fatbin *>(handle), name};
}

GPUSIM_RUNTIME void __cudaRegisterManagedVar(void **, void **, char *, const char *name, int, size_t, int, int) {
  std::fprintf(stderr, "gpusim: __managed__ variable %s: the stand-in has no managed memory\n", name);
}

GPUSIM_RUNTIME char __cudaInitModule(void **) { return 1; }

GPUSIM_RUNTIME int __cudaGetKernel(CuKernel **kernel, const void *function) {
  return call([&] { return kernelOf(function, kernel); });
}

GPUSIM_RUNTIME unsigned __cudaPushCallConfiguration(Dim grid, Dim block, size_t shared, Stream *stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}

GPUSIM_RUNTIME int __cudaPopCallConfiguration(Dim *grid, Dim *block, size_t *shared, Stream **stream) {
  if (configurations().empty()) return remember(kMissingConfiguration);
  const Configuration c = configurations().back();
  configurations().pop_back();
  *grid = c.grid, *block = c.block, *shared = c.shared, *stream = c.stream;
  return kSuccess;
}

GPUSIM_RUNTIME int __cudaLaunchKernel(CuKernel *kernel, Dim grid, Dim block, void **arguments, size_t shared,
                                      Stream *stream) {
  if (!kernel) return lastError() ? lastError() : remember(kInvalidDeviceFunction); // __cudaGetKernel said why
  return call([&] { return launch(kernel, grid, block, arguments, shared, stream); });
}

GPUSIM_RUNTIME int cudaLaunchKernel(const void *function, Dim grid, Dim block, void **arguments, size_t shared,
                                    Stream *stream) {
  return call([&] {
    CuKernel *kernel = nullptr;
    const int r = kernelOf(function, &kernel);
    return r ? r : launch(kernel, grid, block, arguments, shared, stream);
  });
}

GPUSIM_RUNTIME int cudaLaunchKernelExC(const RuntimeLaunchConfig *config, const void *function, void **arguments) {
  if (!config) return remember(kInvalidValue);
  return cudaLaunchKernel(function, config->grid, config->block, arguments, config->sharedBytes, config->stream);
}

} // namespace opc::gpusim::cudart
