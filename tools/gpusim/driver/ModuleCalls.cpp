// Libraries, modules, functions and their launches.
// SPDX-License-Identifier: Apache-2.0
#include "AlteredLaunches.h"
#include "ApiCall.h"
#include "DeviceProperties.h"
#include "PtxImages.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace opc::gpusim::driver {
namespace {

constexpr uint32_t kSharedWithoutAsking = 48 * 1024, kMostThreads = 1024;

/// Error texts go where the client wants its compiler's log.
void writeLog(unsigned count, const JitOption *options, void **values, const std::string &text) {
  char *to = nullptr;
  size_t bytes = 0;
  for (unsigned i = 0; i < count && options && values; ++i) {
    if (options[i] == kJitErrorLog) to = static_cast<char *>(values[i]);
    if (options[i] == kJitErrorLogBytes) bytes = reinterpret_cast<uintptr_t>(values[i]);
  }
  if (!to || !bytes) return;
  const size_t n = std::min(bytes - 1, text.size());
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

CuResult parseImage(ApiCall &c, const char *function, const void *code, unsigned count, const JitOption *options,
                    void **values, std::shared_ptr<const Module> *module) {
  if (!code) return kInvalidValue;
  std::string error;
  const CuResult r = readImage(code, c.driver.options, module, &error);
  if (!r) return kSuccess;
  writeLog(count, options, values, error);
  return c.driver.refuse(r, std::string(function) + ": " + error);
}

/// Onto the device of the current context; its variables are memory of that device.
CuResult place(ApiCall &c, Image &image, CuLibrary *library, CuModule **module) {
  auto &loaded = image.loaded[c.context->device];
  if (!loaded) {
    std::string error;
    bool noRoom = false;
    auto fresh = std::make_shared<LoadedImage>();
    fresh->device = c.context->device;
    fresh->loaded = LoadedModule::load(image.module, *c.driver.memory, &error, &noRoom);
    if (!fresh->loaded) {
      image.loaded.erase(c.context->device);
      return c.driver.refuse(noRoom ? kOutOfMemory : kInvalidPtx, "loading a module: " + error);
    }
    for (const Variable &v : image.module->variables()) {
      uint64_t at = 0, bytes = 0;
      if (!fresh->loaded->variable(v.name, &at, &bytes) || c.driver.device.count(at)) continue;
      c.driver.adopt(at, bytes, c.context->device);
      c.driver.device[at].module = true;
    }
    loaded = std::move(fresh);
  }
  auto made = std::make_unique<CuModule>();
  made->context = c.context, made->library = library, made->image = loaded;
  *module = c.driver.modules.make(std::move(made));
  return kSuccess;
}

void unload(ApiCall &c, CuModule *module) {
  c.driver.functions.destroyIf([&](const CuFunction &f) { return f.module == module; });
  for (const Variable &v : module->image->loaded->module().variables()) {
    uint64_t at = 0, bytes = 0;
    if (module->image->loaded->variable(v.name, &at, &bytes)) c.driver.disown(at);
  }
  c.driver.modules.destroy(module);
}

CuFunction *functionOf(ApiCall &c, CuModule &module, const KernelInfo *kernel) {
  CuFunction *&known = module.functions[kernel->name];
  if (!known) {
    auto made = std::make_unique<CuFunction>();
    made->module = &module, made->kernel = kernel;
    known = c.driver.functions.make(std::move(made));
  }
  return known;
}

CuModule *moduleOf(ApiCall &c, CuLibrary &library) {
  CuModule *&module = library.modules[c.context->device];
  if (!module) c.refused = place(c, library.image, &library, &module);
  if (!module) library.modules.erase(c.context->device);
  return c.refused ? nullptr : module;
}

/// A CUfunction, or a CUkernel in the current context; null after `refused` was set.
CuFunction *find(ApiCall &c, CuFunction *handle, const char *name) {
  if (CuFunction *f = c.driver.functions.find(handle)) return f;
  const CuKernel *k = c.driver.kernels.find(reinterpret_cast<CuKernel *>(handle));
  if (!k) {
    c.refused = c.driver.refuse(kInvalidHandle, std::string(name) + ": this is neither a function nor a kernel");
    return nullptr;
  }
  CuModule *module = moduleOf(c, *k->library);
  return module ? functionOf(c, *module, k->kernel) : nullptr;
}

int sharedLimit(const ApiCall &c, const CuFunction &f) {
  return std::max<int>(static_cast<int>(kSharedWithoutAsking),
                       f.dynamicSharedLimit ? f.dynamicSharedLimit + static_cast<int>(f.kernel->staticShared) : 0);
}

int attributeOf(const ApiCall &c, const CuFunction &f, FunctionAttribute attribute) {
  switch (attribute) {
  case kFunctionMaxThreadsPerBlock: return static_cast<int>(f.kernel->maxThreads ? f.kernel->maxThreads : kMostThreads);
  case kFunctionSharedSizeBytes: return static_cast<int>(f.kernel->staticShared);
  case kFunctionLocalSizeBytes: return static_cast<int>(f.kernel->localBytes);
  case kFunctionPtxVersion: return std::atoi(f.module->image->loaded->module().target().c_str() + 3);
  case kFunctionBinaryVersion: return c.driver.options.computeCapability;
  case kFunctionMaxDynamicSharedSizeBytes: return sharedLimit(c, f) - static_cast<int>(f.kernel->staticShared);
  case kFunctionPreferredSharedMemoryCarveout: return -1;
  default: return 0; // registers are ptxas' and not known here
  }
}

CuResult setAttribute(ApiCall &c, CuFunction &f, FunctionAttribute attribute, int value) {
  if (attribute == kFunctionPreferredSharedMemoryCarveout) return kSuccess; // a hint
  if (attribute != kFunctionMaxDynamicSharedSizeBytes) return kInvalidValue;
  const int most =
      propertiesOf(c.driver.options.computeCapability).sharedPerBlockOptin - static_cast<int>(f.kernel->staticShared);
  if (value < 0 || value > most)
    return c.driver.refuse(kInvalidValue, "MAX_DYNAMIC_SHARED_SIZE_BYTES of " + f.kernel->name + ": " +
                                              std::to_string(value) + ", and the device allows " +
                                              std::to_string(most));
  f.dynamicSharedLimit = value;
  return kSuccess;
}

CuResult checkShape(ApiCall &c, const CuFunction &f, const Dim3 &grid, const Dim3 &block, unsigned shared) {
  const auto text = [](const Dim3 &d) {
    return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
  };
  const std::string launch = "cuLaunchKernel of " + f.kernel->name + ": ";
  const uint64_t threads = uint64_t(block.x) * block.y * block.z;
  const uint32_t most = f.kernel->maxThreads ? f.kernel->maxThreads : kMostThreads;
  if (!grid.x || !grid.y || !grid.z || grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535)
    return c.driver.refuse(kInvalidValue, launch + "a grid of " + text(grid) +
                                              " blocks; at least 1 of each, at most (2147483647, 65535, 65535)");
  if (!threads || block.x > kMostThreads || block.y > kMostThreads || block.z > 64 || threads > most)
    return c.driver.refuse(kInvalidValue,
                           launch + "a block of " + text(block) + " threads; at most " + std::to_string(most));
  const uint64_t allShared = uint64_t(shared) + f.kernel->staticShared;
  if (allShared > static_cast<uint64_t>(sharedLimit(c, f)))
    return c.driver.refuse(
        kInvalidValue,
        launch + std::to_string(allShared) + " bytes of shared memory; at most " + std::to_string(sharedLimit(c, f)) +
            (f.dynamicSharedLimit ? ""
                                  : " (more is to be asked for: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)"));
  return kSuccess;
}

/// The parameters' bytes, each at its offset: from pointers to them, or from one buffer (CU_LAUNCH_PARAM_BUFFER_*).
CuResult packParameters(ApiCall &c, const KernelInfo &kernel, void **parameters, void **extra,
                        std::vector<std::byte> *to) {
  to->assign(std::max<uint32_t>(kernel.paramBytes, 1), std::byte{0});
  if (kernel.params.empty()) return kSuccess;
  if (parameters) {
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      if (!parameters[i])
        return c.driver.refuse(kInvalidValue,
                               "cuLaunchKernel of " + kernel.name + ": parameter " + std::to_string(i) + " is null");
      std::memcpy(to->data() + kernel.params[i].offset, parameters[i], kernel.params[i].size);
    }
    return kSuccess;
  }
  const void *buffer = nullptr;
  size_t bytes = 0;
  for (void **e = extra; e && *e; e += 2) {
    const auto key = reinterpret_cast<uintptr_t>(*e);
    if (key == 1) buffer = e[1];
    if (key == 2) bytes = *static_cast<size_t *>(e[1]);
  }
  if (!buffer || bytes < kernel.paramBytes)
    return c.driver.refuse(kInvalidValue, "cuLaunchKernel of " + kernel.name + ": it has " +
                                              std::to_string(kernel.params.size()) + " parameters, and none are given");
  std::memcpy(to->data(), buffer, kernel.paramBytes);
  return kSuccess;
}

CuResult launchKernel(const char *name, CuFunction *function, const Dim3 &grid, const Dim3 &block, unsigned shared,
                      Stream *stream, void **parameters, void **extra) {
  return api(name, kCurrentContext, [&](ApiCall &c) {
    CuFunction *f = find(c, function, name);
    Stream *s = f ? c.stream(stream, name) : nullptr;
    if (!s) return c.refused;
    if (s->context != f->module->context)
      return c.driver.refuse(kInvalidHandle, std::string(name) + " of " + f->kernel->name +
                                                 ": stream and function are of different contexts");
    if (const CuResult r = checkShape(c, *f, grid, block, shared)) return r;
    KernelWork work;
    if (const CuResult r = packParameters(c, *f->kernel, parameters, extra, &work.params)) return r;
    work.image = f->module->image, work.kernel = f->kernel;
    work.grid = {std::min(grid.x, c.driver.options.blocks), grid.y, grid.z}, work.block = block,
    work.dynamicShared = shared;
    work.sharedLimit = static_cast<uint32_t>(sharedLimit(c, *f));
    std::string wrong;
    if (!alterLaunch(c.driver.options.altered, &work, &wrong)) return c.driver.refuse(kInvalidValue, wrong);
    if (!s->capture) ++c.driver.report.launches;
    return c.driver.issue(c.lock, *s, std::move(work));
  });
}

/// By threads, blocks and shared memory; registers are ptxas' and not known here.
int blocksPerMultiprocessor(const ApiCall &c, const CuFunction &f, int threads, size_t dynamicShared) {
  const DeviceProperties &p = propertiesOf(c.driver.options.computeCapability);
  const int warps = (threads + 31) / 32;
  int blocks = std::min(p.blocksPerMultiprocessor, p.threadsPerMultiprocessor / 32 / std::max(warps, 1));
  const size_t shared =
      (f.kernel->staticShared + dynamicShared + 127) / 128 * 128 + static_cast<size_t>(p.reservedShared);
  if (shared) blocks = std::min<int>(blocks, static_cast<int>(static_cast<size_t>(p.sharedPerMultiprocessor) / shared));
  return threads > attributeOf(c, f, kFunctionMaxThreadsPerBlock) ? 0 : blocks;
}

CuResult occupancy(const char *name, int *blocks, CuFunction *function, int blockSize, size_t dynamicShared) {
  return api(name, kCurrentContext, [&](ApiCall &c) {
    if (!blocks || blockSize < 1) return kInvalidValue;
    CuFunction *f = find(c, function, name);
    if (!f) return c.refused;
    *blocks = blocksPerMultiprocessor(c, *f, blockSize, dynamicShared);
    return kSuccess;
  });
}

CuResult loadModule(const char *name, CuModule **module, const void *image, unsigned count, JitOption *options,
                    void **values) {
  return api(name, kCurrentContext, [&](ApiCall &c) {
    if (!module) return kInvalidValue;
    Image parsed;
    if (const CuResult r = parseImage(c, name, image, count, options, values, &parsed.module)) return r;
    return place(c, parsed, nullptr, module);
  });
}

CuResult globalOf(ApiCall &c, const LoadedModule &loaded, const char *name, DevicePtr *pointer, size_t *bytes) {
  uint64_t at = 0, size = 0;
  if (!name || !loaded.variable(name, &at, &size)) return kNotFound;
  if (pointer) *pointer = at;
  if (bytes) *bytes = size;
  return kSuccess;
}

} // namespace

extern "C" {

CuResult cuLibraryLoadData(CuLibrary **library, const void *code, JitOption *jitOptions, void **jitValues,
                           unsigned jitCount, LibraryOption *, void **, unsigned) {
  return api("cuLibraryLoadData", kInitialized, [&](ApiCall &c) {
    if (!library) return kInvalidValue;
    auto made = std::make_unique<CuLibrary>();
    if (const CuResult r =
            parseImage(c, "cuLibraryLoadData", code, jitCount, jitOptions, jitValues, &made->image.module))
      return r;
    *library = c.driver.libraries.make(std::move(made));
    return kSuccess;
  });
}

CuResult cuLibraryUnload(CuLibrary *library) {
  return api("cuLibraryUnload", kInitialized | kNoCapture, [&](ApiCall &c) {
    CuLibrary *l = c.driver.libraries.find(library);
    if (!l) return kInvalidHandle;
    c.driver.scheduler.runAll(c.lock, nullptr);
    for (const auto &[device, module] : l->modules) unload(c, module);
    for (const auto &[name, kernel] : l->kernels) c.driver.kernels.destroy(kernel);
    c.driver.libraries.destroy(l);
    return c.context ? c.context->sticky : kSuccess; // of what was waited for
  });
}

CuResult cuLibraryGetKernel(CuKernel **kernel, CuLibrary *library, const char *name) {
  return api("cuLibraryGetKernel", kInitialized, [&](ApiCall &c) {
    CuLibrary *l = c.driver.libraries.find(library);
    if (!l || !kernel || !name) return l ? kInvalidValue : kInvalidHandle;
    const KernelInfo *info = l->image.module->kernel(name);
    if (!info) return kNotFound;
    CuKernel *&known = l->kernels[name];
    if (!known) {
      auto made = std::make_unique<CuKernel>();
      made->library = l, made->kernel = info;
      known = c.driver.kernels.make(std::move(made));
    }
    *kernel = known;
    return kSuccess;
  });
}

CuResult cuLibraryGetModule(CuModule **module, CuLibrary *library) {
  return api("cuLibraryGetModule", kCurrentContext, [&](ApiCall &c) {
    CuLibrary *l = c.driver.libraries.find(library);
    if (!l || !module) return l ? kInvalidValue : kInvalidHandle;
    *module = moduleOf(c, *l);
    return c.refused;
  });
}

CuResult cuLibraryGetGlobal(DevicePtr *pointer, size_t *bytes, CuLibrary *library, const char *name) {
  return api("cuLibraryGetGlobal", kCurrentContext, [&](ApiCall &c) {
    CuLibrary *l = c.driver.libraries.find(library);
    if (!l) return kInvalidHandle;
    CuModule *module = moduleOf(c, *l);
    return module ? globalOf(c, *module->image->loaded, name, pointer, bytes) : c.refused;
  });
}

CuResult cuKernelGetFunction(CuFunction **function, CuKernel *kernel) {
  return api("cuKernelGetFunction", kCurrentContext, [&](ApiCall &c) {
    if (!function) return kInvalidValue;
    *function = find(c, reinterpret_cast<CuFunction *>(kernel), "cuKernelGetFunction");
    return c.refused;
  });
}

CuResult cuKernelGetAttribute(int *value, FunctionAttribute attribute, CuKernel *kernel, Device device) {
  return api("cuKernelGetAttribute", kCurrentContext, [&](ApiCall &c) {
    if (!value) return kInvalidValue;
    if (!c.isKnown(device)) return kInvalidDevice;
    CuFunction *f = find(c, reinterpret_cast<CuFunction *>(kernel), "cuKernelGetAttribute");
    if (!f) return c.refused;
    *value = attributeOf(c, *f, attribute);
    return kSuccess;
  });
}

CuResult cuKernelSetAttribute(FunctionAttribute attribute, int value, CuKernel *kernel, Device device) {
  return api("cuKernelSetAttribute", kCurrentContext, [&](ApiCall &c) {
    if (!c.isKnown(device)) return kInvalidDevice;
    CuFunction *f = find(c, reinterpret_cast<CuFunction *>(kernel), "cuKernelSetAttribute");
    return f ? setAttribute(c, *f, attribute, value) : c.refused;
  });
}

CuResult cuModuleLoadData(CuModule **module, const void *image) {
  return loadModule("cuModuleLoadData", module, image, 0, nullptr, nullptr);
}

CuResult cuModuleLoadDataEx(CuModule **module, const void *image, unsigned count, JitOption *options, void **values) {
  return loadModule("cuModuleLoadDataEx", module, image, count, options, values);
}

CuResult cuModuleGetFunction(CuFunction **function, CuModule *module, const char *name) {
  return api("cuModuleGetFunction", kCurrentContext, [&](ApiCall &c) {
    CuModule *m = c.driver.modules.find(module);
    if (!m || !function || !name) return m ? kInvalidValue : kInvalidHandle;
    const KernelInfo *info = m->image->loaded->module().kernel(name);
    if (!info) return kNotFound;
    *function = functionOf(c, *m, info);
    return kSuccess;
  });
}

CuResult cuModuleGetGlobal_v2(DevicePtr *pointer, size_t *bytes, CuModule *module, const char *name) {
  return api("cuModuleGetGlobal", kCurrentContext, [&](ApiCall &c) {
    CuModule *m = c.driver.modules.find(module);
    return m ? globalOf(c, *m->image->loaded, name, pointer, bytes) : kInvalidHandle;
  });
}

CuResult cuModuleUnload(CuModule *module) {
  return api("cuModuleUnload", kCurrentContext | kNoCapture, [&](ApiCall &c) {
    CuModule *m = c.driver.modules.find(module);
    if (!m || m->library) return kInvalidHandle; // a library's module is the library's
    c.driver.scheduler.runAll(c.lock, nullptr);
    unload(c, m);
    return c.context->sticky; // of what was waited for
  });
}

CuResult cuFuncGetAttribute(int *value, FunctionAttribute attribute, CuFunction *function) {
  return api("cuFuncGetAttribute", kCurrentContext, [&](ApiCall &c) {
    CuFunction *f = find(c, function, "cuFuncGetAttribute");
    if (!f || !value) return f ? kInvalidValue : c.refused;
    *value = attributeOf(c, *f, attribute);
    return kSuccess;
  });
}

CuResult cuFuncSetAttribute(CuFunction *function, FunctionAttribute attribute, int value) {
  return api("cuFuncSetAttribute", kCurrentContext, [&](ApiCall &c) {
    CuFunction *f = find(c, function, "cuFuncSetAttribute");
    return f ? setAttribute(c, *f, attribute, value) : c.refused;
  });
}

CuResult cuFuncGetName(const char **name, CuFunction *function) {
  return api("cuFuncGetName", kCurrentContext, [&](ApiCall &c) {
    CuFunction *f = find(c, function, "cuFuncGetName");
    if (!f || !name) return f ? kInvalidValue : c.refused;
    *name = f->kernel->name.c_str();
    return kSuccess;
  });
}

CuResult cuLaunchKernel(CuFunction *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                        unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream *stream, void **parameters,
                        void **extra) {
  return launchKernel("cuLaunchKernel", function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes, stream,
                      parameters, extra);
}

CuResult cuLaunchKernelEx(const LaunchConfig *config, CuFunction *function, void **parameters, void **extra) {
  if (!config) return kInvalidValue;
  return launchKernel("cuLaunchKernelEx", function, {config->gridX, config->gridY, config->gridZ},
                      {config->blockX, config->blockY, config->blockZ}, config->sharedBytes, config->stream, parameters,
                      extra);
}

CuResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CuFunction *function, int blockSize,
                                                     size_t dynamicShared) {
  return occupancy("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks, function, blockSize, dynamicShared);
}

CuResult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CuFunction *function, int blockSize,
                                                              size_t dynamicShared, unsigned) {
  return occupancy("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", blocks, function, blockSize, dynamicShared);
}

CuResult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CuFunction *function,
                                          SharedOfBlockSize shared, size_t dynamicShared, int limit) {
  return api("cuOccupancyMaxPotentialBlockSize", kCurrentContext, [&](ApiCall &c) {
    CuFunction *f = find(c, function, "cuOccupancyMaxPotentialBlockSize");
    if (!f || !minGridSize || !blockSize) return f ? kInvalidValue : c.refused;
    int most = attributeOf(c, *f, kFunctionMaxThreadsPerBlock), best = 0;
    if (limit > 0) most = std::min(most, limit);
    for (int threads = most; threads > 0; threads = threads == most && most % 32 ? most / 32 * 32 : threads - 32) {
      const int blocks = blocksPerMultiprocessor(c, *f, threads, shared ? shared(threads) : dynamicShared);
      if (blocks * threads <= best) continue;
      best = blocks * threads, *blockSize = threads;
      *minGridSize = blocks * propertiesOf(c.driver.options.computeCapability).multiprocessors;
    }
    return best ? kSuccess : kInvalidValue;
  });
}

} // extern "C"
} // namespace opc::gpusim::driver
