// Device memory, pinned memory, copies and fills.
// SPDX-License-Identifier: Apache-2.0
#include "ApiCall.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace opc::gpusim::driver {
namespace {

constexpr unsigned char kPoison = 0xb5;

uint64_t address(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// What host memory an asynchronous copy gets: pinned, or it would not be asynchronous.
CuResult checkPinned(ApiCall &c, uint64_t at, uint64_t bytes, const char *function) {
  if (bytes == 0 || StandInDriver::holding(c.driver.pinned, at, bytes) != c.driver.pinned.end()) return kSuccess;
  return c.driver.refuse(kInvalidValue, std::string(function) + ": " + std::to_string(bytes) +
                                            " bytes of host memory are not pinned: the copy would not be asynchronous. "
                                            "Allocate with cuMemHostAlloc, or register with cuMemHostRegister");
}

CuResult checkDevice(ApiCall &c, uint64_t at, uint64_t bytes, const char *function, const char *role) {
  if (bytes == 0 || c.driver.memory->contains(at, bytes)) return kSuccess;
  return c.driver.refuse(kInvalidValue,
                         std::string(function) + ": the " + role + " of " + std::to_string(bytes) +
                             " bytes is not within one allocation of device memory: " + c.driver.memory->nearest(at));
}

/// Issues a copy; a call without stream is one of the legacy stream, and waits when host memory takes part.
CuResult issueCopy(ApiCall &c, CopyWork work, Stream *handle, bool waits, const char *function) {
  for (const bool target : {true, false}) {
    const bool host = target ? work.toHost : work.fromHost;
    const uint64_t at = target ? work.to : work.from, bytes = target ? work.toBytes() : work.fromBytes();
    CuResult r = kSuccess;
    if (!host)
      r = checkDevice(c, at, bytes, function, target ? "target" : "source");
    else if (bytes && !at)
      r = kInvalidValue;
    else if (!waits)
      r = checkPinned(c, at, bytes, function);
    else if (StandInDriver::holding(c.driver.pinned, at, bytes) == c.driver.pinned.end())
      work.pageable = true;
    if (r) return r;
  }
  Stream *stream = c.stream(handle, function);
  if (!stream) return c.refused;
  const bool hostTakesPart = work.toHost || work.fromHost;
  if (const CuResult r = c.driver.issue(c.lock, *stream, std::move(work))) return r;
  if (!waits || !hostTakesPart) return kSuccess;
  const OperationPtr last = stream->last;
  ++c.driver.report.synchronisations;
  c.driver.scheduler.runUntil(c.lock, last);
  c.driver.joinHost(last);
  return c.context->sticky;
}

CopyWork row(uint64_t to, uint64_t from, size_t bytes, bool toHost, bool fromHost) {
  CopyWork w;
  w.to = to, w.from = from, w.width = bytes, w.toPitch = w.fromPitch = bytes;
  w.toHost = toHost, w.fromHost = fromHost;
  return w;
}

constexpr unsigned kWaits = kCurrentContext | kNoCapture;

CuResult fillMemory(const char *function, DevicePtr to, uint32_t value, uint32_t size, size_t count, Stream *stream,
                    unsigned needs) {
  return api(function, needs, [&](ApiCall &c) {
    if (to % size) return c.driver.refuse(kInvalidValue, std::string(function) + ": the target is not aligned");
    if (const CuResult r = checkDevice(c, to, count * size, function, "target")) return r;
    Stream *s = c.stream(stream, function);
    return s ? c.driver.issue(c.lock, *s, FillWork{to, value, size, count}) : c.refused;
  });
}

/// cuMemcpy and its like: the addresses say what is on the host.
CuResult copyByAddress(const char *function, DevicePtr to, DevicePtr from, size_t bytes, Stream *stream, bool waits) {
  return api(function, waits ? kWaits : kCurrentContext, [&](ApiCall &c) {
    const bool toHost = !c.driver.memory->find(to), fromHost = !c.driver.memory->find(from);
    return issueCopy(c, row(to, from, bytes, toHost, fromHost), stream, waits, function);
  });
}

CuResult copyRows(const char *function, const Copy2D *p, Stream *stream, bool waits) {
  return api(function, waits ? kWaits : kCurrentContext, [&](ApiCall &c) {
    if (!p) return kInvalidValue;
    if (p->srcMemoryType == kMemoryArray || p->dstMemoryType == kMemoryArray)
      return c.driver.refuse(kNotSupported, std::string(function) + ": the stand-in has no arrays");
    CopyWork w;
    const auto side = [&](MemoryType type, const void *host, DevicePtr device, size_t pitch, size_t x, size_t y,
                          bool *onHost) {
      *onHost = type == kMemoryHost || (type == kMemoryUnified && !c.driver.memory->find(device));
      return (type == kMemoryHost ? address(host) : device) + y * pitch + x;
    };
    w.width = p->widthInBytes, w.height = p->height;
    w.fromPitch = p->srcPitch ? p->srcPitch : w.width, w.toPitch = p->dstPitch ? p->dstPitch : w.width;
    w.from = side(p->srcMemoryType, p->srcHost, p->srcDevice, w.fromPitch, p->srcXInBytes, p->srcY, &w.fromHost);
    w.to = side(p->dstMemoryType, p->dstHost, p->dstDevice, w.toPitch, p->dstXInBytes, p->dstY, &w.toHost);
    if (w.height > 1 && (w.fromPitch < w.width + p->srcXInBytes || w.toPitch < w.width + p->dstXInBytes))
      return c.driver.refuse(kInvalidValue, std::string(function) + ": rows of " + std::to_string(w.width) +
                                                " bytes do not fit the pitches " + std::to_string(w.fromPitch) +
                                                " and " + std::to_string(w.toPitch));
    return issueCopy(c, w, stream, waits, function);
  });
}

CuResult copyPeer(const char *function, DevicePtr to, Context *toContext, DevicePtr from, Context *fromContext,
                  size_t bytes, Stream *stream, bool waits) {
  return api(function, waits ? kWaits : kCurrentContext, [&](ApiCall &c) {
    const auto belongs = [&](DevicePtr at, const Context *context) {
      const auto owner = StandInDriver::holding(c.driver.device, at, 1);
      return context && owner != c.driver.device.end() && owner->second.device == context->device;
    };
    if (bytes && (!belongs(to, toContext) || !belongs(from, fromContext)))
      return c.driver.refuse(kInvalidValue, std::string(function) + ": a pointer is not of the device of its context");
    return issueCopy(c, row(to, from, bytes, false, false), stream, waits, function);
  });
}

CuResult allocatePinned(ApiCall &c, void **pointer, size_t bytes, unsigned flags) {
  if (!pointer || bytes == 0) return kInvalidValue;
  void *p = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!p) return kOutOfMemory;
  std::memset(p, kPoison, bytes);
  Allocation a;
  a.bytes = bytes, a.flags = flags;
  c.driver.pinned[address(p)] = a;
  *pointer = p;
  return kSuccess;
}

/// The end of pinned memory; copies that are under way end first, as the driver's do.
CuResult releasePinned(ApiCall &c, void *pointer, bool owned, const char *function, CuResult unknown) {
  const auto it = c.driver.pinned.find(address(pointer));
  if (it == c.driver.pinned.end() || it->second.owned != owned)
    return c.driver.refuse(unknown, std::string(function) + ": no " + (owned ? "allocation" : "registration") +
                                        " of pinned memory begins there");
  c.driver.scheduler.runAll(c.lock, nullptr);
  const auto still = c.driver.pinned.find(address(pointer)); // host functions may have run
  if (still == c.driver.pinned.end()) return kInvalidValue;
  c.driver.order.forget(still->first, still->first + still->second.bytes);
  c.driver.pinned.erase(still);
  if (owned) std::free(pointer);
  return c.context->sticky; // of what was waited for
}

} // namespace

extern "C" {

CuResult cuMemAlloc_v2(DevicePtr *pointer, size_t bytes) {
  return api("cuMemAlloc", kWaits, [&](ApiCall &c) {
    if (!pointer || bytes == 0) return kInvalidValue;
    return c.driver.allocate(*c.context, bytes, pointer);
  });
}

CuResult cuMemFree_v2(DevicePtr pointer) {
  return api("cuMemFree", kWaits, [&](ApiCall &c) {
    if (!pointer) return kSuccess;
    c.driver.scheduler.runAll(c.lock, nullptr); // the driver waits for what may use it, too
    const auto owner = StandInDriver::holding(c.driver.device, pointer, 1);
    if (owner != c.driver.device.end())
      c.driver.scheduler.runAll(c.lock, c.driver.contexts[static_cast<size_t>(owner->second.device)].get());
    const CuResult r = c.driver.release(pointer);
    return r ? r : c.context->sticky; // of what was waited for
  });
}

CuResult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return api("cuMemGetInfo", kCurrentContext, [&](ApiCall &c) {
    if (!free || !total) return kInvalidValue;
    *total = c.driver.options.memory;
    *free = *total - c.driver.report.used[static_cast<size_t>(c.context->device)];
    return kSuccess;
  });
}

CuResult cuMemGetAddressRange_v2(DevicePtr *base, size_t *bytes, DevicePtr pointer) {
  return api("cuMemGetAddressRange", kCurrentContext, [&](ApiCall &c) {
    const auto owner = StandInDriver::holding(c.driver.device, pointer, 1);
    if (owner == c.driver.device.end()) return kNotFound;
    if (base) *base = owner->first;
    if (bytes) *bytes = owner->second.bytes;
    return kSuccess;
  });
}

CuResult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return api("cuMemHostAlloc", kWaits, [&](ApiCall &c) { return allocatePinned(c, pointer, bytes, flags); });
}

CuResult cuMemAllocHost_v2(void **pointer, size_t bytes) {
  return api("cuMemAllocHost", kWaits, [&](ApiCall &c) { return allocatePinned(c, pointer, bytes, 0); });
}

CuResult cuMemFreeHost(void *pointer) {
  return api("cuMemFreeHost", kWaits,
             [&](ApiCall &c) { return releasePinned(c, pointer, true, "cuMemFreeHost", kInvalidValue); });
}

CuResult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  return api("cuMemHostRegister", kWaits, [&](ApiCall &c) {
    if (!pointer || bytes == 0) return kInvalidValue;
    const uint64_t begin = address(pointer), end = begin + bytes;
    auto next = c.driver.pinned.lower_bound(end);
    if (next != c.driver.pinned.begin() && (--next)->first + next->second.bytes > begin)
      return c.driver.refuse(kHostMemoryAlreadyRegistered, "cuMemHostRegister: some of these bytes are pinned already");
    Allocation a;
    a.bytes = bytes, a.flags = flags, a.owned = false;
    c.driver.pinned[begin] = a;
    return kSuccess;
  });
}

CuResult cuMemHostUnregister(void *pointer) {
  return api("cuMemHostUnregister", kWaits, [&](ApiCall &c) {
    return releasePinned(c, pointer, false, "cuMemHostUnregister", kHostMemoryNotRegistered);
  });
}

CuResult cuMemHostGetDevicePointer_v2(DevicePtr *, void *, unsigned) {
  return api("cuMemHostGetDevicePointer", kCurrentContext, [&](ApiCall &c) {
    return c.driver.refuse(kNotSupported, "cuMemHostGetDevicePointer: kernels of the simulator see device memory only");
  });
}

CuResult cuMemHostGetFlags(unsigned *flags, void *pointer) {
  return api("cuMemHostGetFlags", kCurrentContext, [&](ApiCall &c) {
    const auto owner = StandInDriver::holding(c.driver.pinned, address(pointer), 1);
    if (!flags || owner == c.driver.pinned.end()) return kInvalidValue;
    *flags = owner->second.flags;
    return kSuccess;
  });
}

CuResult cuPointerGetAttribute(void *data, PointerAttribute attribute, DevicePtr pointer) {
  return api("cuPointerGetAttribute", kInitialized, [&](ApiCall &c) {
    const auto owner = StandInDriver::holding(c.driver.device, pointer, 1);
    const bool onDevice = owner != c.driver.device.end();
    const bool onHost = !onDevice && StandInDriver::holding(c.driver.pinned, pointer, 1) != c.driver.pinned.end();
    if (!data || (!onDevice && !onHost)) return kInvalidValue;
    switch (attribute) {
    case kPointerMemoryType: *static_cast<unsigned *>(data) = onDevice ? kMemoryDevice : kMemoryHost; return kSuccess;
    case kPointerDeviceOrdinal: *static_cast<int *>(data) = onDevice ? owner->second.device : 0; return kSuccess;
    case kPointerDevicePointer:
      if (onHost) return kInvalidValue;
      *static_cast<DevicePtr *>(data) = pointer;
      return kSuccess;
    case kPointerHostPointer:
      if (onDevice) return kInvalidValue;
      *static_cast<DevicePtr *>(data) = pointer;
      return kSuccess;
    case kPointerContext:
      *static_cast<Context **>(data) =
          onDevice ? c.driver.contexts[static_cast<size_t>(owner->second.device)].get() : c.context;
      return kSuccess;
    }
    return kNotSupported;
  });
}

CuResult cuMemcpyHtoD_v2(DevicePtr to, const void *from, size_t bytes) {
  return api("cuMemcpyHtoD", kWaits, [&](ApiCall &c) {
    return issueCopy(c, row(to, address(from), bytes, false, true), nullptr, true, "cuMemcpyHtoD");
  });
}

CuResult cuMemcpyDtoH_v2(void *to, DevicePtr from, size_t bytes) {
  return api("cuMemcpyDtoH", kWaits, [&](ApiCall &c) {
    return issueCopy(c, row(address(to), from, bytes, true, false), nullptr, true, "cuMemcpyDtoH");
  });
}

CuResult cuMemcpyDtoD_v2(DevicePtr to, DevicePtr from, size_t bytes) {
  return api("cuMemcpyDtoD", kWaits, [&](ApiCall &c) {
    return issueCopy(c, row(to, from, bytes, false, false), nullptr, true, "cuMemcpyDtoD");
  });
}

CuResult cuMemcpy(DevicePtr to, DevicePtr from, size_t bytes) {
  return copyByAddress("cuMemcpy", to, from, bytes, nullptr, true);
}

CuResult cuMemcpyPeer(DevicePtr to, Context *toContext, DevicePtr from, Context *fromContext, size_t bytes) {
  return copyPeer("cuMemcpyPeer", to, toContext, from, fromContext, bytes, nullptr, true);
}

CuResult cuMemcpy2D_v2(const Copy2D *copy) { return copyRows("cuMemcpy2D", copy, nullptr, true); }

CuResult cuMemcpyHtoDAsync_v2(DevicePtr to, const void *from, size_t bytes, Stream *stream) {
  return api("cuMemcpyHtoDAsync", kCurrentContext, [&](ApiCall &c) {
    return issueCopy(c, row(to, address(from), bytes, false, true), stream, false, "cuMemcpyHtoDAsync");
  });
}

CuResult cuMemcpyDtoHAsync_v2(void *to, DevicePtr from, size_t bytes, Stream *stream) {
  return api("cuMemcpyDtoHAsync", kCurrentContext, [&](ApiCall &c) {
    return issueCopy(c, row(address(to), from, bytes, true, false), stream, false, "cuMemcpyDtoHAsync");
  });
}

CuResult cuMemcpyDtoDAsync_v2(DevicePtr to, DevicePtr from, size_t bytes, Stream *stream) {
  return api("cuMemcpyDtoDAsync", kCurrentContext, [&](ApiCall &c) {
    return issueCopy(c, row(to, from, bytes, false, false), stream, false, "cuMemcpyDtoDAsync");
  });
}

CuResult cuMemcpyAsync(DevicePtr to, DevicePtr from, size_t bytes, Stream *stream) {
  return copyByAddress("cuMemcpyAsync", to, from, bytes, stream, false);
}

CuResult cuMemcpyPeerAsync(DevicePtr to, Context *toContext, DevicePtr from, Context *fromContext, size_t bytes,
                           Stream *stream) {
  return copyPeer("cuMemcpyPeerAsync", to, toContext, from, fromContext, bytes, stream, false);
}

CuResult cuMemcpy2DAsync_v2(const Copy2D *copy, Stream *stream) {
  return copyRows("cuMemcpy2DAsync", copy, stream, false);
}

CuResult cuMemsetD8_v2(DevicePtr to, unsigned char value, size_t count) {
  return fillMemory("cuMemsetD8", to, value, 1, count, nullptr, kWaits);
}

CuResult cuMemsetD16_v2(DevicePtr to, unsigned short value, size_t count) {
  return fillMemory("cuMemsetD16", to, value, 2, count, nullptr, kWaits);
}

CuResult cuMemsetD32_v2(DevicePtr to, unsigned value, size_t count) {
  return fillMemory("cuMemsetD32", to, value, 4, count, nullptr, kWaits);
}

CuResult cuMemsetD8Async(DevicePtr to, unsigned char value, size_t count, Stream *stream) {
  return fillMemory("cuMemsetD8Async", to, value, 1, count, stream, kCurrentContext);
}

CuResult cuMemsetD16Async(DevicePtr to, unsigned short value, size_t count, Stream *stream) {
  return fillMemory("cuMemsetD16Async", to, value, 2, count, stream, kCurrentContext);
}

CuResult cuMemsetD32Async(DevicePtr to, unsigned value, size_t count, Stream *stream) {
  return fillMemory("cuMemsetD32Async", to, value, 4, count, stream, kCurrentContext);
}

} // extern "C"
} // namespace opc::gpusim::driver
