// Initialization, devices, contexts, names of errors, addresses of functions.
// SPDX-License-Identifier: Apache-2.0
#include "ApiCall.h"
#include "DeviceProperties.h"

#include <cstdio>
#include <cstring>

namespace opc::gpusim::driver {
namespace {

int attributeOf(const SimOptions &o, int device, DeviceAttribute attribute) {
  const DeviceProperties &p = propertiesOf(o.computeCapability);
  switch (attribute) {
  case kAttributeMaxThreadsPerBlock:
  case kAttributeMaxBlockDimX:
  case kAttributeMaxBlockDimY: return 1024;
  case kAttributeMaxBlockDimZ: return 64;
  case kAttributeMaxGridDimX: return 2147483647;
  case kAttributeMaxGridDimY:
  case kAttributeMaxGridDimZ: return 65535;
  case kAttributeMaxSharedPerBlock: return 48 * 1024;
  case kAttributeTotalConstantMemory: return 64 * 1024;
  case kAttributeWarpSize: return 32;
  case kAttributeMaxPitch: return 2147483647;
  case kAttributeMaxRegistersPerBlock:
  case kAttributeMaxRegistersPerMultiprocessor: return 65536;
  case kAttributeClockRate: return p.clockKHz;
  case kAttributeMultiprocessorCount: return p.multiprocessors;
  case kAttributeConcurrentKernels:
  case kAttributeUnifiedAddressing:
  case kAttributeStreamPrioritiesSupported:
  case kAttributeHostRegisterSupported: return 1;
  case kAttributeMemoryClockRate: return p.memoryClockKHz;
  case kAttributeGlobalMemoryBusWidth: return p.busBits;
  case kAttributeL2CacheSize: return p.l2Bytes;
  case kAttributeMaxThreadsPerMultiprocessor: return p.threadsPerMultiprocessor;
  case kAttributeAsyncEngineCount: return 2;
  case kAttributeComputeCapabilityMajor: return o.computeCapability / 10;
  case kAttributeComputeCapabilityMinor: return o.computeCapability % 10;
  case kAttributeMaxSharedPerMultiprocessor: return p.sharedPerMultiprocessor;
  case kAttributeMaxSharedPerBlockOptin: return p.sharedPerBlockOptin;
  case kAttributeMaxBlocksPerMultiprocessor: return p.blocksPerMultiprocessor;
  case kAttributeReservedSharedPerBlock: return p.reservedShared;
  }
  return attribute == 33 /* PCI bus */ ? device + 1 : 0;
}

bool copyText(char *to, int bytes, const char *text) {
  return to && bytes > 0 && std::snprintf(to, static_cast<size_t>(bytes), "%s", text) >= 0;
}

struct ExportedFunction {
  const char *symbol, *name;
  void *address;
};

const ExportedFunction kExported[] = {
#define GPUSIM_ENTRY(symbol, name, parameters) {#symbol, name, reinterpret_cast<void *>(&symbol)},
    GPUSIM_FUNCTIONS(GPUSIM_ENTRY)
#undef GPUSIM_ENTRY
};

} // namespace

extern "C" {

CuResult cuInit(unsigned flags) {
  return api("cuInit", kNothing, [&](ApiCall &c) { return flags ? kInvalidValue : c.driver.init(); });
}

CuResult cuDriverGetVersion(int *version) {
  return api("cuDriverGetVersion", kNothing, [&](ApiCall &c) {
    if (!version) return kInvalidValue;
    *version = c.driver.options.driver;
    return kSuccess;
  });
}

CuResult cuDeviceGetCount(int *count) {
  return api("cuDeviceGetCount", kInitialized, [&](ApiCall &c) {
    if (!count) return kInvalidValue;
    *count = c.driver.options.devices;
    return kSuccess;
  });
}

CuResult cuDeviceGet(Device *device, int ordinal) {
  return api("cuDeviceGet", kInitialized, [&](ApiCall &c) {
    if (!device) return kInvalidValue;
    if (!c.isKnown(ordinal)) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

CuResult cuDeviceGetName(char *name, int bytes, Device device) {
  return api("cuDeviceGetName", kInitialized, [&](ApiCall &c) {
    if (!c.isKnown(device)) return kInvalidDevice;
    return copyText(name, bytes, propertiesOf(c.driver.options.computeCapability).name) ? kSuccess : kInvalidValue;
  });
}

CuResult cuDeviceGetUuid_v2(Uuid *uuid, Device device) {
  return api("cuDeviceGetUuid", kInitialized, [&](ApiCall &c) {
    if (!uuid) return kInvalidValue;
    if (!c.isKnown(device)) return kInvalidDevice;
    std::memcpy(uuid->bytes, "opc simulated \0", 16);
    uuid->bytes[15] = static_cast<char>(device);
    return kSuccess;
  });
}

CuResult cuDeviceGetPCIBusId(char *id, int bytes, Device device) {
  return api("cuDeviceGetPCIBusId", kInitialized, [&](ApiCall &c) {
    if (!c.isKnown(device)) return kInvalidDevice;
    char text[32];
    std::snprintf(text, sizeof text, "0000:%02x:00.0", static_cast<unsigned>(device + 1));
    return copyText(id, bytes, text) ? kSuccess : kInvalidValue;
  });
}

CuResult cuDeviceTotalMem_v2(size_t *bytes, Device device) {
  return api("cuDeviceTotalMem", kInitialized, [&](ApiCall &c) {
    if (!bytes) return kInvalidValue;
    if (!c.isKnown(device)) return kInvalidDevice;
    *bytes = c.driver.options.memory;
    return kSuccess;
  });
}

CuResult cuDeviceGetAttribute(int *value, DeviceAttribute attribute, Device device) {
  return api("cuDeviceGetAttribute", kInitialized, [&](ApiCall &c) {
    if (!value || attribute < 1 || attribute > kLastDeviceAttribute) return kInvalidValue;
    if (!c.isKnown(device)) return kInvalidDevice;
    *value = attributeOf(c.driver.options, device, attribute);
    return kSuccess;
  });
}

CuResult cuDeviceCanAccessPeer(int *can, Device device, Device peer) {
  return api("cuDeviceCanAccessPeer", kInitialized, [&](ApiCall &c) {
    if (!can) return kInvalidValue;
    if (!c.isKnown(device) || !c.isKnown(peer)) return kInvalidDevice;
    *can = c.driver.options.canReach(device, peer);
    return kSuccess;
  });
}

CuResult cuDevicePrimaryCtxRetain(Context **context, Device device) {
  return api("cuDevicePrimaryCtxRetain", kInitialized, [&](ApiCall &c) {
    if (!context) return kInvalidValue;
    if (!c.isKnown(device)) return kInvalidDevice;
    *context = c.driver.contexts[static_cast<size_t>(device)].get();
    ++(*context)->retained;
    return kSuccess;
  });
}

CuResult cuDevicePrimaryCtxRelease_v2(Device device) {
  return api("cuDevicePrimaryCtxRelease", kInitialized, [&](ApiCall &c) {
    if (!c.isKnown(device)) return kInvalidDevice;
    Context &context = *c.driver.contexts[static_cast<size_t>(device)];
    if (context.retained == 0) return kInvalidContext;
    if (--context.retained == 0) c.driver.reset(c.lock, context);
    return kSuccess;
  });
}

CuResult cuDevicePrimaryCtxReset_v2(Device device) {
  return api("cuDevicePrimaryCtxReset", kInitialized, [&](ApiCall &c) {
    if (!c.isKnown(device)) return kInvalidDevice;
    c.driver.reset(c.lock, *c.driver.contexts[static_cast<size_t>(device)]);
    return kSuccess;
  });
}

CuResult cuDevicePrimaryCtxGetState(Device device, unsigned *flags, int *active) {
  return api("cuDevicePrimaryCtxGetState", kInitialized, [&](ApiCall &c) {
    if (!flags || !active) return kInvalidValue;
    if (!c.isKnown(device)) return kInvalidDevice;
    const Context &context = *c.driver.contexts[static_cast<size_t>(device)];
    *flags = context.flags, *active = context.retained > 0;
    return kSuccess;
  });
}

CuResult cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
  return api("cuDevicePrimaryCtxSetFlags", kInitialized, [&](ApiCall &c) {
    if (!c.isKnown(device)) return kInvalidDevice;
    c.driver.contexts[static_cast<size_t>(device)]->flags = flags;
    return kSuccess;
  });
}

/// Null, or a context that is retained.
static CuResult checkContext(ApiCall &c, const Context *context) {
  if (!context) return kSuccess;
  for (const auto &known : c.driver.contexts)
    if (known.get() == context)
      return known->retained ? kSuccess
                             : c.driver.refuse(kContextIsDestroyed, "this primary context is not retained (any more)");
  return c.driver.refuse(kInvalidContext, "this is no context");
}

CuResult cuCtxSetCurrent(Context *context) {
  return api("cuCtxSetCurrent", kInitialized, [&](ApiCall &c) {
    if (const CuResult r = checkContext(c, context)) return r;
    auto &stack = threadContexts();
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
    return kSuccess;
  });
}

CuResult cuCtxGetCurrent(Context **context) {
  return api("cuCtxGetCurrent", kInitialized, [&](ApiCall &c) {
    if (!context) return kInvalidValue;
    *context = c.context;
    return kSuccess;
  });
}

CuResult cuCtxGetDevice(Device *device) {
  return api("cuCtxGetDevice", kCurrentContext | kDespiteErrors, [&](ApiCall &c) {
    if (!device) return kInvalidValue;
    *device = c.context->device;
    return kSuccess;
  });
}

CuResult cuCtxPushCurrent_v2(Context *context) {
  return api("cuCtxPushCurrent", kInitialized, [&](ApiCall &c) {
    if (!context) return kInvalidContext;
    if (const CuResult r = checkContext(c, context)) return r;
    return threadContexts().push_back(context) ? kSuccess : kOutOfMemory;
  });
}

CuResult cuCtxPopCurrent_v2(Context **context) {
  return api("cuCtxPopCurrent", kInitialized, [&](ApiCall &c) {
    if (!c.context) return kInvalidContext;
    if (context) *context = c.context;
    threadContexts().pop_back();
    return kSuccess;
  });
}

CuResult cuCtxSynchronize() {
  return api("cuCtxSynchronize", kCurrentContext | kNoCapture,
             [&](ApiCall &c) { return c.driver.synchronize(c.lock, *c.context); });
}

CuResult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  return api("cuCtxGetStreamPriorityRange", kCurrentContext, [&](ApiCall &) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return kSuccess;
  });
}

CuResult cuCtxEnablePeerAccess(Context *peer, unsigned flags) {
  return api("cuCtxEnablePeerAccess", kCurrentContext, [&](ApiCall &c) {
    if (flags) return kInvalidValue;
    if (!peer || checkContext(c, peer)) return kInvalidContext;
    if (peer == c.context)
      return c.driver.refuse(kInvalidDevice, "cuCtxEnablePeerAccess: the peer is the device itself");
    if (!c.driver.options.canReach(c.context->device, peer->device))
      return c.driver.refuse(kPeerAccessUnsupported, "cuCtxEnablePeerAccess: device " +
                                                         std::to_string(c.context->device) +
                                                         " does not reach the memory of device " +
                                                         std::to_string(peer->device) + " (peers= of CUDA_SIM)");
    return c.context->peers.insert(peer->device).second ? kSuccess : kPeerAccessAlreadyEnabled;
  });
}

CuResult cuCtxDisablePeerAccess(Context *peer) {
  return api("cuCtxDisablePeerAccess", kCurrentContext, [&](ApiCall &c) {
    if (!peer || checkContext(c, peer)) return kInvalidContext;
    return c.context->peers.erase(peer->device) ? kSuccess : kPeerAccessNotEnabled;
  });
}

CuResult cuGetErrorName(CuResult result, const char **name) {
  return api("cuGetErrorName", kNothing, [&](ApiCall &) {
    if (!name) return kInvalidValue;
    *name = nullptr;
#define GPUSIM_NAME(own, cudaName, value, text)                                                                        \
  if (result == value) *name = #cudaName;
    GPUSIM_RESULTS(GPUSIM_NAME)
#undef GPUSIM_NAME
    return *name ? kSuccess : kInvalidValue;
  });
}

CuResult cuGetErrorString(CuResult result, const char **text) {
  return api("cuGetErrorString", kNothing, [&](ApiCall &) {
    if (!text) return kInvalidValue;
    *text = nullptr;
#define GPUSIM_TEXT(own, cudaName, value, words)                                                                       \
  if (result == value) *text = words;
    GPUSIM_RESULTS(GPUSIM_TEXT)
#undef GPUSIM_TEXT
    return *text ? kSuccess : kInvalidValue;
  });
}

CuResult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t, ProcAddressStatus *status) {
  return api("cuGetProcAddress", kNothing, [&](ApiCall &) {
    if (!symbol || !function) return kInvalidValue;
    *function = nullptr;
    if (!std::strcmp(symbol, "cuGraphInstantiate")) symbol = "cuGraphInstantiateWithFlags"; // since 12.0
    for (const ExportedFunction &f : kExported)
      if (!std::strcmp(f.name, symbol)) *function = f.address; // the last one is the newest
    if (status) *status = *function ? kProcFound : kProcNotFound;
    return *function ? kSuccess : kNotFound;
  });
}

} // extern "C"
} // namespace opc::gpusim::driver
