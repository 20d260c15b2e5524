// Every function of the stand-in driver, with right and wrong arguments.  usage: opc_gpusim_calls SCENARIO
// SPDX-License-Identifier: Apache-2.0
#include "DriverCalls.h"
#include "FaultKernels.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace opc::gpusim::driver;

namespace {

// --- devices and contexts -----------------------------------------------------------------------------------------

void devices() {
  int count = 0, version = 0, value = 0;
  Device d = -1;
  CODE(kNotInitialized, cuDeviceGetCount, &count);
  OK(cuDriverGetVersion, &version);
  EXPECT(version == 12040);
  CODE(kInvalidValue, cuInit, 1);
  OK(cuInit, 0);
  OK(cuDeviceGetCount, &count);
  EXPECT(count == 2);
  OK(cuDeviceGet, &d, 1);
  EXPECT(d == 1);
  CODE(kInvalidDevice, cuDeviceGet, &d, 2);
  char text[64];
  OK(cuDeviceGetName, text, 64, 0);
  EXPECT(!std::strcmp(text, "Simulated GPU (sm_90)"));
  OK(cuDeviceGetPCIBusId, text, 64, 1);
  EXPECT(!std::strcmp(text, "0000:02:00.0"));
  Uuid a, b;
  OK(cuDeviceGetUuid_v2, &a, 0);
  OK(cuDeviceGetUuid_v2, &b, 1);
  EXPECT(std::memcmp(&a, &b, sizeof a));
  size_t bytes = 0;
  OK(cuDeviceTotalMem_v2, &bytes, 0);
  EXPECT(bytes == 64 << 20);
  OK(cuDeviceGetAttribute, &value, kAttributeComputeCapabilityMajor, 0);
  EXPECT(value == 9);
  OK(cuDeviceGetAttribute, &value, kAttributeWarpSize, 0);
  EXPECT(value == 32);
  OK(cuDeviceGetAttribute, &value, kAttributeMaxSharedPerBlockOptin, 0);
  EXPECT(value == 227 * 1024);
  CODE(kInvalidValue, cuDeviceGetAttribute, &value, static_cast<DeviceAttribute>(5000), 0);
  CODE(kInvalidDevice, cuDeviceGetAttribute, &value, kAttributeWarpSize, 9);
  OK(cuDeviceCanAccessPeer, &value, 0, 1);
  EXPECT(value == 1);
  OK(cuDeviceCanAccessPeer, &value, 0, 0);
  EXPECT(value == 0);
}

void contexts() {
  OK(cuInit, 0);
  Context *context = nullptr, *other = nullptr;
  unsigned flags = 9;
  int active = 9, least = 9, greatest = 9;
  CODE(kInvalidContext, cuCtxSynchronize);
  OK(cuCtxGetCurrent, &context);
  EXPECT(!context);
  OK(cuDevicePrimaryCtxSetFlags_v2, 0, 4);
  OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EXPECT(flags == 4 && active == 0);
  CODE(kInvalidContext, cuDevicePrimaryCtxRelease_v2, 0);
  OK(cuDevicePrimaryCtxRetain, &context, 0);
  OK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
  EXPECT(active == 1);
  OK(cuCtxPushCurrent_v2, context);
  OK(cuCtxGetCurrent, &other);
  EXPECT(other == context);
  Device d = -1;
  OK(cuCtxGetDevice, &d);
  EXPECT(d == 0);
  OK(cuCtxGetStreamPriorityRange, &least, &greatest);
  EXPECT(least == 0 && greatest < 0);
  OK(cuCtxSynchronize);
  OK(cuCtxPopCurrent_v2, &other);
  EXPECT(other == context);
  CODE(kInvalidContext, cuCtxPopCurrent_v2, &other);
  CODE(kInvalidContext, cuCtxSetCurrent, reinterpret_cast<Context *>(&least));
  OK(cuDevicePrimaryCtxRelease_v2, 0);
  CODE(kContextIsDestroyed, cuCtxSetCurrent, context);
  OK(cuDevicePrimaryCtxReset_v2, 0);
}

void errors() {
  const char *text = nullptr;
  OK(cuGetErrorName, kIllegalAddress, &text);
  EXPECT(!std::strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  OK(cuGetErrorString, kIllegalAddress, &text);
  EXPECT(!std::strcmp(text, "an illegal memory access was encountered"));
  CODE(kInvalidValue, cuGetErrorName, static_cast<CuResult>(12345), &text);
  EXPECT(!text);
  CODE(kInvalidValue, cuGetErrorString, static_cast<CuResult>(12345), &text);
  void *f = nullptr;
  ProcAddressStatus status = kProcVersionNotSufficient;
  OK(cuGetProcAddress_v2, "cuMemAlloc", &f, 12000, 0, &status);
  EXPECT(f == reinterpret_cast<void *>(cuda().cuMemAlloc_v2) && status == kProcFound);
  CODE(kNotFound, cuGetProcAddress_v2, "cuNoSuchThing", &f, 12000, 0, &status);
  EXPECT(!f && status == kProcNotFound);
}

// --- memory -------------------------------------------------------------------------------------------------------

void memory() {
  useDevice(0);
  size_t free = 0, total = 0, bytes = 0;
  DevicePtr base = 0;
  OK(cuMemGetInfo_v2, &free, &total);
  EXPECT(free == total && total == 64 << 20);
  const DevicePtr p = newMemory(1000);
  OK(cuMemGetInfo_v2, &free, &total);
  EXPECT(total - free == 1000);
  OK(cuMemGetAddressRange_v2, &base, &bytes, p + 999);
  EXPECT(base == p && bytes == 1000);
  CODE(kNotFound, cuMemGetAddressRange_v2, &base, &bytes, p + 1000);
  CODE(kInvalidValue, cuMemAlloc_v2, &base, 0);
  CODE(kOutOfMemory, cuMemAlloc_v2, &base, 64 << 20);
  CODE(kInvalidValue, cuMemFree_v2, p + 8);
  OK(cuMemFree_v2, p);
  CODE(kInvalidValue, cuMemFree_v2, p);
  OK(cuMemFree_v2, 0);

  void *pinned = nullptr, *other = nullptr;
  unsigned flags = 0;
  OK(cuMemHostAlloc, &pinned, 256, 2);
  OK(cuMemHostGetFlags, &flags, static_cast<char *>(pinned) + 255);
  EXPECT(flags == 2);
  CODE(kInvalidValue, cuMemHostGetFlags, &flags, &flags);
  CODE(kNotSupported, cuMemHostGetDevicePointer_v2, &base, pinned, 0);
  OK(cuMemAllocHost_v2, &other, 64);
  unsigned kind = 0;
  OK(cuPointerGetAttribute, &kind, kPointerMemoryType, reinterpret_cast<DevicePtr>(other));
  EXPECT(kind == kMemoryHost);
  OK(cuMemFreeHost, other);
  CODE(kInvalidValue, cuMemFreeHost, other);
  const DevicePtr q = newMemory(64);
  int device = -1;
  OK(cuPointerGetAttribute, &device, kPointerDeviceOrdinal, q + 3);
  EXPECT(device == 0);
  CODE(kInvalidValue, cuPointerGetAttribute, &device, kPointerDeviceOrdinal, 64);

  std::vector<unsigned> own(64, 5);
  Stream *s = newStream();
  CODE(kInvalidValue, cuMemcpyHtoDAsync_v2, q, own.data(), 64, s);
  OK(cuMemHostRegister_v2, own.data(), 256, 0);
  CODE(kHostMemoryAlreadyRegistered, cuMemHostRegister_v2, own.data() + 1, 8, 0);
  OK(cuMemcpyHtoDAsync_v2, q, own.data(), 64, s);
  OK(cuMemHostUnregister, own.data());
  CODE(kHostMemoryNotRegistered, cuMemHostUnregister, own.data());
  OK(cuStreamSynchronize, s);
  EXPECT(firstOf(q) == 5);
}

void copies() {
  useDevice(0);
  const DevicePtr a = newMemory(64), b = newMemory(64);
  unsigned *host = newPinned(16), back[16] = {};
  Stream *s = newStream();
  for (unsigned i = 0; i < 16; ++i) host[i] = i;
  const auto backOf = [&](DevicePtr p) {
    OK(cuStreamSynchronize, s);
    OK(cuMemcpyDtoH_v2, back, p, 64);
    return back[0] == 0 && back[15] == 15;
  };
  OK(cuMemcpyHtoD_v2, a, host, 64);
  OK(cuMemcpyDtoD_v2, b, a, 64);
  OK(cuCtxSynchronize);
  EXPECT(backOf(b));
  OK(cuMemsetD8_v2, b, 1, 64);
  OK(cuMemsetD16_v2, b, 0x203, 2);
  OK(cuMemsetD32_v2, b + 4, 77, 1);
  OK(cuCtxSynchronize);
  OK(cuMemcpyDtoH_v2, back, b, 64);
  EXPECT(back[0] == 0x02030203 && back[1] == 77 && back[2] == 0x01010101);
  CODE(kInvalidValue, cuMemsetD32_v2, b + 2, 77, 1);
  CODE(kInvalidValue, cuMemsetD8_v2, b, 0, 65);
  OK(cuMemcpyDtoDAsync_v2, b, a, 64, s);
  EXPECT(backOf(b));
  OK(cuMemsetD8Async, b, 0, 64, s);
  OK(cuMemsetD16Async, b, 0, 32, s);
  OK(cuMemsetD32Async, b, 0, 16, s);
  OK(cuMemcpyAsync, b, a, 64, s);
  EXPECT(backOf(b));
  OK(cuMemcpyDtoHAsync_v2, host, a, 64, s);
  EXPECT(host[3] == 0xb5b5b5b5); // until it is waited for
  OK(cuStreamSynchronize, s);
  EXPECT(host[3] == 3);
  OK(cuMemcpy, b, reinterpret_cast<DevicePtr>(host), 64);
  EXPECT(backOf(b));
  Context *context = nullptr;
  OK(cuCtxGetCurrent, &context);
  OK(cuMemcpyPeer, a, context, b, context, 64);
  OK(cuCtxSynchronize);
  OK(cuMemcpyPeerAsync, a, context, b, context, 64, s);
  // The first two columns of four rows of four become two rows... of a dense 4 x 2.
  Copy2D rows = {};
  rows.srcMemoryType = kMemoryDevice, rows.srcDevice = a, rows.srcPitch = 16;
  rows.dstMemoryType = kMemoryHost, rows.dstHost = back, rows.dstPitch = 8;
  rows.widthInBytes = 8, rows.height = 4;
  OK(cuStreamSynchronize, s);
  OK(cuMemcpy2D_v2, &rows);
  EXPECT(back[0] == 0 && back[1] == 1 && back[2] == 4 && back[3] == 5 && back[7] == 13);
  CODE(kInvalidValue, cuMemcpy2DAsync_v2, &rows, s); // the stack is not pinned
  rows.dstHost = host;
  OK(cuMemcpy2DAsync_v2, &rows, s);
  OK(cuStreamSynchronize, s);
  EXPECT(host[2] == 4 && host[7] == 13);
  rows.dstPitch = 4;
  CODE(kInvalidValue, cuMemcpy2D_v2, &rows);
  rows.dstMemoryType = kMemoryArray;
  CODE(kNotSupported, cuMemcpy2D_v2, &rows);
  CODE(kInvalidValue, cuMemcpyHtoD_v2, a, host, 65);
}

// --- streams ------------------------------------------------------------------------------------------------------

void streams() {
  Context *context = useDevice(0), *found = nullptr;
  Stream *s = nullptr;
  OK(cuStreamCreateWithPriority, &s, kStreamNonBlocking, -2);
  int priority = 0;
  unsigned flags = 0;
  OK(cuStreamGetPriority, s, &priority);
  OK(cuStreamGetFlags, s, &flags);
  OK(cuStreamGetCtx, s, &found);
  EXPECT(priority == -2 && flags == kStreamNonBlocking && found == context);
  CODE(kInvalidValue, cuStreamCreate, &s, 77);
  Event *start = newEvent(0), *end = newEvent(0), *untimed = newEvent();
  const DevicePtr p = newMemory(64);
  float ms = 0;
  CODE(kInvalidHandle, cuEventElapsedTime, &ms, start, end);
  OK(cuEventQuery, start); // never recorded: done
  OK(cuEventRecord, start, s);
  OK(cuMemsetD8Async, p, 1, 64, s);
  OK(cuEventRecordWithFlags, end, s, 0);
  CODE(kNotReady, cuEventElapsedTime, &ms, start, end);
  int polls = 0;
  CuResult r = kNotReady;
  while ((r = cuda().cuEventQuery(end)) == kNotReady) ++polls;
  EXPECT(r == kSuccess && polls > 0);
  OK(cuEventElapsedTime_v2, &ms, start, end);
  EXPECT(ms > 0);
  OK(cuEventRecord, untimed, s);
  OK(cuEventSynchronize, untimed);
  CODE(kInvalidHandle, cuEventElapsedTime_v2, &ms, start, untimed);
  OK(cuMemsetD8Async, p, 2, 64, s);
  while ((r = cuda().cuStreamQuery(s)) == kNotReady) ++polls;
  EXPECT(r == kSuccess);
  EXPECT(firstOf(p) == 0x02020202);
  OK(cuStreamWaitEvent, s, untimed, 0);
  OK(cuEventDestroy_v2, untimed);
  CODE(kInvalidHandle, cuEventRecord, untimed, s);
  // Blocking streams and the legacy stream wait for each other.
  Stream *blocking = nullptr;
  OK(cuStreamCreate, &blocking, 0);
  OK(cuMemsetD8Async, p, 3, 64, nullptr);
  OK(cuMemsetD8Async, p, 4, 64, blocking);
  OK(cuMemsetD8Async, p, 5, 4, nullptr);
  OK(cuMemsetD8Async, p + 1, 6, 1, reinterpret_cast<Stream *>(kStreamPerThread));
  OK(cuMemsetD8Async, p + 2, 7, 1, blocking);
  EXPECT(firstOf(p) == 0x05070605);
  OK(cuStreamDestroy_v2, s);
  CODE(kInvalidHandle, cuStreamDestroy_v2, s);
  CODE(kInvalidHandle, cuStreamSynchronize, s);
}

void hostFunctions() {
  useDevice(0);
  Stream *s = newStream();
  static std::atomic<int> state{0};
  OK(cuLaunchHostFunc, s, [](void *) { state = cuda().cuCtxSynchronize(); }, nullptr);
  // Nobody synchronises: the driver's thread runs it all the same.
  for (int i = 0; i < 2000 && state == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT(state == kNotPermitted);
  state = 0;
  OK(cuLaunchHostFunc, s, [](void *data) { *static_cast<std::atomic<int> *>(data) = 1; }, &state);
  OK(cuStreamSynchronize, s);
  EXPECT(state == 1);
  CODE(kInvalidValue, cuLaunchHostFunc, s, nullptr, nullptr);
  // One buffer for two results: a host function takes the first one, before the second one comes.
  static unsigned taken = 0;
  unsigned *buffer = newPinned(1);
  const DevicePtr p = newMemory(8);
  OK(cuMemsetD32Async, p, 11, 1, s);
  OK(cuMemsetD32Async, p + 4, 22, 1, s);
  OK(cuMemcpyDtoHAsync_v2, buffer, p, 4, s);
  OK(cuStreamSynchronize, s);
  OK(cuLaunchHostFunc, s, [](void *from) { taken = *static_cast<unsigned *>(from); }, buffer);
  OK(cuMemcpyDtoHAsync_v2, buffer, p + 4, 4, s);
  OK(cuStreamSynchronize, s);
  EXPECT(taken == 11 && *buffer == 22);
}

// --- modules ------------------------------------------------------------------------------------------------------

std::string fatbin(const std::vector<std::pair<int, std::string>> &entries, unsigned arch, bool wrong = false) {
  std::string body;
  for (const auto &[kind, payload] : entries) {
    char header[64] = {};
    const auto put = [&](size_t at, uint64_t value, size_t bytes) { std::memcpy(header + at, &value, bytes); };
    put(0, static_cast<uint64_t>(kind), 2), put(2, 0x101, 2), put(4, 64, 4), put(8, payload.size(), 8),
        put(28, arch, 4);
    if (wrong) put(8, payload.size() + 1000, 8);
    body += std::string(header, 64) + payload;
  }
  char head[16] = {};
  const uint32_t magic = 0xba55ed50, version = 0x100001;
  const uint64_t bytes = body.size();
  std::memcpy(head, &magic, 4), std::memcpy(head + 4, &version, 4), std::memcpy(head + 8, &bytes, 8);
  return std::string(head, 16) + body;
}

void modules() {
  useDevice(0);
  CuModule *module = nullptr;
  CuFunction *f = newFunction("addTo", &module), *wide = nullptr;
  DevicePtr global = 0;
  size_t bytes = 0;
  OK(cuModuleGetGlobal_v2, &global, &bytes, module, "counter");
  EXPECT(bytes == 4 && firstOf(global) == 7);
  addTo(f, global, 5, nullptr, 1);
  OK(cuStreamSynchronize, nullptr);
  EXPECT(firstOf(global) == 12);
  CODE(kInvalidValue, cuMemFree_v2, global);
  CODE(kNotFound, cuModuleGetGlobal_v2, &global, &bytes, module, "none");
  CODE(kNotFound, cuModuleGetFunction, &f, module, "none");
  OK(cuModuleGetFunction, &wide, module, "wide");
  const char *name = nullptr;
  int value = 0;
  OK(cuFuncGetName, &name, wide);
  EXPECT(!std::strcmp(name, "wide"));
  OK(cuFuncGetAttribute, &value, kFunctionMaxThreadsPerBlock, wide);
  EXPECT(value == 64);
  OK(cuFuncGetAttribute, &value, kFunctionSharedSizeBytes, wide);
  EXPECT(value == 1024);
  OK(cuFuncSetAttribute, wide, kFunctionMaxDynamicSharedSizeBytes, 100 * 1024);
  CODE(kInvalidValue, cuFuncSetAttribute, wide, kFunctionMaxDynamicSharedSizeBytes, 163 * 1024);
  OK(cuLaunchKernel, wide, 1, 1, 1, 64, 1, 1, 100 * 1024, nullptr, nullptr, nullptr);
  CODE(kInvalidValue, cuLaunchKernel, wide, 1, 1, 1, 65, 1, 1, 0, nullptr, nullptr, nullptr);
  CODE(kInvalidValue, cuLaunchKernel, wide, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  CODE(kInvalidValue, cuLaunchKernel, wide, 1, 65536, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  CODE(kInvalidHandle, cuLaunchKernel, reinterpret_cast<CuFunction *>(&value), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr,
       nullptr);
  CODE(kInvalidValue, cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); // no parameters
  // 1,024 + 1,024 + 4 bytes a block, 64 threads: 2 warps of 64.
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, wide, 64, 0);
  EXPECT(value == 32);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &value, wide, 64, 40 * 1024, 0);
  EXPECT(value == 3); // of 164 KiB: 40 + 1 of its own + 1 reserved
  int grid = 0, block = 0;
  OK(cuOccupancyMaxPotentialBlockSize, &grid, &block, f, nullptr, 0, 0);
  EXPECT(block == 1024 && grid == 2 * 108);
  struct {
    DevicePtr p;
    unsigned v;
  } buffer = {global, 3};
  size_t size = 12;
  void *extra[] = {reinterpret_cast<void *>(1), &buffer, reinterpret_cast<void *>(2), &size, nullptr};
  LaunchConfig config = {};
  config.gridX = config.gridY = config.gridZ = config.blockX = config.blockY = config.blockZ = 1;
  OK(cuLaunchKernelEx, &config, f, nullptr, extra);
  OK(cuCtxSynchronize);
  EXPECT(firstOf(global) == 15);
  OK(cuModuleUnload, module);
  CODE(kInvalidHandle, cuModuleUnload, module);
  CODE(kInvalidHandle, cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
}

void libraries() {
  useDevice(0);
  CuLibrary *library = nullptr;
  CuKernel *kernel = nullptr;
  CuFunction *f = nullptr;
  CuModule *module = nullptr;
  DevicePtr global = 0;
  size_t bytes = 0;
  int value = 0;
  const auto load = [&](const std::string &code) {
    return cuda().cuLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  };
  EXPECT(load("\x7f"
              "ELF") == kNoBinaryForGpu);
  EXPECT(load("no PTX at all") == kInvalidPtx);
  EXPECT(load("") == kInvalidPtx);
  EXPECT(load(".version 8.9\n.target sm_80\n.address_size 64\n") == kUnsupportedPtxVersion); // driver 12.4 ends at 8.4
  EXPECT(load(".version 8.0\n.target sm_90\n.address_size 64\n") == kInvalidPtx);            // the device is sm_80
  EXPECT(load(fatbin({{2, "machine code"}}, 75)) == kNoBinaryForGpu);
  EXPECT(load(fatbin({{1, kPtx}}, 90)) == kNoBinaryForGpu);
  EXPECT(load(fatbin({{1, "\x01\x02\x03\x04 compressed"}}, 75)) == kNoBinaryForGpu);
  EXPECT(load(fatbin({{1, kPtx}}, 75, true)) == kInvalidImage);
  EXPECT(load(fatbin({{2, "machine code"}, {1, kPtx}}, 75)) == kSuccess);
  char log[200] = "";
  JitOption options[] = {kJitErrorLog, kJitErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  CODE(kInvalidPtx, cuModuleLoadDataEx, &module, "what is this", 2, options, values);
  EXPECT(std::strstr(log, "the PTX is wrong: line 1"));
  CODE(kNotFound, cuLibraryGetKernel, &kernel, library, "none");
  OK(cuLibraryGetKernel, &kernel, library, "addTo");
  OK(cuKernelGetFunction, &f, kernel);
  OK(cuLibraryGetModule, &module, library);
  CODE(kInvalidHandle, cuModuleUnload, module); // it is the library's
  OK(cuLibraryGetGlobal, &global, &bytes, library, "counter");
  OK(cuKernelSetAttribute, kFunctionMaxDynamicSharedSizeBytes, 1000, kernel, 0);
  OK(cuKernelGetAttribute, &value, kFunctionMaxDynamicSharedSizeBytes, kernel, 0);
  EXPECT(value == 48 * 1024);
  addTo(reinterpret_cast<CuFunction *>(kernel), global, 1, nullptr, 1); // a CUkernel is launched as a CUfunction is
  OK(cuCtxSynchronize);
  EXPECT(firstOf(global) == 8);
  OK(cuLibraryUnload, library);
  CODE(kInvalidHandle, cuLibraryUnload, library);
}

// --- graphs -------------------------------------------------------------------------------------------------------

CuGraph *capture(Stream *s, DevicePtr p, CuFunction *f, unsigned value, bool more = false) {
  CuGraph *graph = nullptr;
  OK(cuStreamBeginCapture_v2, s, kCaptureRelaxed);
  OK(cuMemsetD32Async, p, value, 4, s);
  addTo(f, p, 1, s);
  if (more) addTo(f, p, 1, s);
  OK(cuStreamEndCapture, s, &graph);
  return graph;
}

void graphs() {
  useDevice(0);
  Stream *s = newStream();
  CuFunction *f = newFunction("addTo");
  const DevicePtr p = newMemory(64);
  CaptureStatus status = kCaptureActive;
  OK(cuStreamIsCapturing, s, &status);
  EXPECT(status == kCaptureNone);
  CuGraph *graph = capture(s, p, f, 10);
  size_t count = 0;
  OK(cuGraphGetNodes, graph, nullptr, &count);
  EXPECT(count == 2);
  CuGraphNode *nodes[2] = {};
  OK(cuGraphGetNodes, graph, nodes, &count);
  GraphNodeKind kind = kNodeEmpty;
  OK(cuGraphNodeGetType, nodes[0], &kind);
  EXPECT(kind == kNodeMemset);
  OK(cuGraphNodeGetType, nodes[1], &kind);
  EXPECT(kind == kNodeKernel);
  CuGraphExec *exec = nullptr;
  OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
  OK(cuGraphUpload, exec, s);
  OK(cuGraphLaunch, exec, s);
  OK(cuGraphLaunch, exec, s);
  OK(cuStreamSynchronize, s);
  EXPECT(firstOf(p) == 11);
  CuGraph *other = capture(s, p, f, 20), *longer = capture(s, p, f, 20, true);
  GraphUpdateInfo info = {};
  OK(cuGraphExecUpdate_v2, exec, other, &info);
  OK(cuGraphLaunch, exec, s);
  OK(cuStreamSynchronize, s);
  EXPECT(firstOf(p) == 21);
  CODE(kGraphExecUpdateFailure, cuGraphExecUpdate_v2, exec, longer, &info);
  EXPECT(info.result == kUpdateTopologyChanged);
  OK(cuGraphExecDestroy, exec);
  CODE(kInvalidHandle, cuGraphLaunch, exec, s);
  OK(cuGraphDestroy, graph);
  CODE(kInvalidHandle, cuGraphDestroy, graph);
}

void captureRules() {
  useDevice(0);
  Stream *s = newStream(), *t = newStream(), *blocking = nullptr;
  OK(cuStreamCreate, &blocking, 0);
  Event *e = newEvent(), *outside = newEvent(), *inOther = newEvent();
  const DevicePtr p = newMemory(64);
  DevicePtr q = 0;
  CuGraph *graph = nullptr;
  CaptureStatus status = kCaptureNone;
  const auto begin = [&](Stream *stream, CaptureMode mode = kCaptureThreadLocal) {
    OK(cuStreamBeginCapture_v2, stream, mode);
  };
  CODE(kIllegalState, cuStreamEndCapture, s, &graph);
  begin(s);
  CODE(kIllegalState, cuStreamBeginCapture_v2, s, kCaptureGlobal);
  OK(cuStreamIsCapturing, s, &status);
  EXPECT(status == kCaptureActive);
  CODE(kStreamCaptureUnsupported, cuMemAlloc_v2, &q, 64); // and the capture is spoilt
  OK(cuStreamIsCapturing, s, &status);
  EXPECT(status == kCaptureInvalidated);
  CODE(kStreamCaptureInvalidated, cuMemsetD8Async, p, 0, 64, s);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, s, &graph);
  EXPECT(!graph);

  begin(s); // a query, a synchronisation of its stream
  CODE(kStreamCaptureUnsupported, cuStreamQuery, s);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, s, &graph);

  begin(s); // an event of work that is not captured
  OK(cuEventRecord, outside, t);
  CODE(kStreamCaptureIsolation, cuStreamWaitEvent, s, outside, 0);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, s, &graph);

  begin(s), begin(t); // two captures
  OK(cuEventRecord, inOther, t);
  CODE(kStreamCaptureMerge, cuStreamWaitEvent, s, inOther, 0);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, s, &graph);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, t, &graph);

  begin(s); // a fork ends where it began
  OK(cuEventRecord, e, s);
  OK(cuStreamWaitEvent, t, e, 0);
  CODE(kStreamCaptureUnmatched, cuStreamEndCapture, t, &graph);
  CODE(kCapturedEvent, cuEventQuery, e);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, s, &graph);

  begin(s); // a graph has no synchronisation with its events
  OK(cuEventRecord, e, s);
  OK(cuStreamEndCapture, s, &graph);
  CODE(kCapturedEvent, cuEventSynchronize, e);

  begin(blocking); // the legacy stream would wait for it
  CODE(kStreamCaptureImplicit, cuMemsetD8Async, p, 0, 64, nullptr);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, blocking, &graph);
  CODE(kStreamCaptureUnsupported, cuStreamBeginCapture_v2, nullptr, kCaptureGlobal);

  begin(s); // another thread
  std::thread([&] {
    Context *context = nullptr;
    OK(cuDevicePrimaryCtxRetain, &context, 0);
    OK(cuCtxSetCurrent, context);
    CODE(kStreamCaptureWrongThread, cuStreamEndCapture, s, &graph);
    OK(cuMemAlloc_v2, &q, 64); // thread-local: nobody else's business
  }).join();
  OK(cuStreamEndCapture, s, &graph);
  begin(s, kCaptureGlobal); // unless this thread says that it knows what it does
  CaptureMode mode = kCaptureRelaxed;
  OK(cuThreadExchangeStreamCaptureMode, &mode);
  EXPECT(mode == kCaptureGlobal);
  OK(cuMemAlloc_v2, &q, 64);
  OK(cuThreadExchangeStreamCaptureMode, &mode);
  CODE(kStreamCaptureUnsupported, cuMemFree_v2, q);
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, s, &graph);
}

// --- several devices, errors that stay, threads, fork
// -----------------------------------------------------------------

void sticky() {
  useDevice(0);
  CuFunction *f = newFunction("addTo");
  const DevicePtr p = newMemory(64);
  Stream *s = newStream();
  OK(cuMemsetD8Async, p, 0, 64, s);
  addTo(f, p + 56, 1, s); // two of four are out of bounds
  CODE(kIllegalAddress, cuStreamSynchronize, s);
  DevicePtr q = 0;
  CODE(kIllegalAddress, cuMemAlloc_v2, &q, 64);
  CODE(kIllegalAddress, cuMemFree_v2, p);
  CODE(kIllegalAddress, cuStreamSynchronize, s);
  Device d = 0;
  OK(cuCtxGetDevice, &d);
  OK(cuDevicePrimaryCtxReset_v2, 0);
  OK(cuMemAlloc_v2, &q, 64);
  CODE(kInvalidHandle, cuStreamSynchronize, s);
}

/// With findings=warn: what the hardware stops at is an error all the same, the rest is only said.
void warnings() {
  const std::pair<const char *, int> faults[] = {{"trap", 719},  {"assert", 710}, {"unknown", 715},
                                                 {"stack", 714}, {"half", 719},   {"race", 0}};
  for (const auto &[name, code] : faults) {
    useDevice(0);
    CuModule *module = nullptr;
    CuFunction *f = nullptr;
    OK(cuModuleLoadData, &module, kFaultKernels);
    OK(cuModuleGetFunction, &f, module, name);
    OK(cuLaunchKernel, f, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr);
    expectCode(cuda().cuCtxSynchronize(), code, name, __LINE__);
    OK(cuDevicePrimaryCtxReset_v2, 0);
  }
}

void threads() {
  Context *context = useDevice(0);
  CuFunction *f = newFunction("addTo");
  std::vector<std::thread> all;
  std::atomic<int> right{0};
  for (unsigned t = 0; t < 4; ++t)
    all.emplace_back([&, t] {
      OK(cuCtxSetCurrent, context);
      Stream *s = newStream();
      const DevicePtr p = newMemory(64);
      unsigned *host = newPinned(4);
      for (unsigned i = 0; i < 50; ++i) {
        OK(cuMemsetD32Async, p, t * 1000 + i, 16, s);
        addTo(f, p, 1, s);
        OK(cuMemcpyDtoHAsync_v2, host, p, 16, s);
        OK(cuLaunchHostFunc, s, [](void *at) { ++*static_cast<unsigned *>(at); }, host);
        OK(cuStreamSynchronize, s);
        right += host[0] == t * 1000 + i + 2;
      }
      OK(cuMemFree_v2, p);
      OK(cuStreamDestroy_v2, s);
    });
  for (std::thread &t : all) t.join();
  EXPECT(right == 200);
}

void forks() {
  useDevice(0);
  const DevicePtr p = newMemory(64);
  // A thread is in the driver most of the time: the child may inherit its lock.
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    useDevice(0);
    const char one = 1;
    while (!stop) cuda().cuMemcpyHtoD_v2(p, &one, 1);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      DevicePtr q = 0;
      _exit(cuda().cuMemAlloc_v2(&q, 64) == kNotInitialized && cuda().cuInit(0) == kNotInitialized ? 0 : 1);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  busy.join();
  OK(cuMemFree_v2, p);
}

void exports() {
  OK(cuInit, 0);
  void *library = dlopen(std::getenv("OPC_GPUSIM_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
  EXPECT(library && dlsym(library, "cuMemAlloc_v2"));
  EXPECT(!dlsym(library, "_ZN3opc6gpusim6driver13StandInDriver8instanceEv"));
}

/// What cuInit says of CUDA_SIM.
void init() { std::printf("%d\n", cuda().cuInit(0)); }

struct Scenario {
  const char *name;
  void (*run)();
};

const Scenario kScenarios[] = {
    {"devices", devices},
    {"contexts", contexts},
    {"errors", errors},
    {"memory", memory},
    {"copies", copies},
    {"streams", streams},
    {"modules", modules},
    {"libraries", libraries},
    {"graphs", graphs},
    {"capture_rules", captureRules},
    {"peers", peers},
    {"peers_denied", peersDenied},
    {"peer_streams", peerStreams},
    {"sticky", sticky},
    {"threads", threads},
    {"host_functions", hostFunctions},
    {"forks", forks},
    {"exports", exports},
    {"warnings", warnings},
};

} // namespace

int main(int argc, char **argv) {
  for (const Scenario &s : kScenarios)
    if (argc == 2 && !std::strcmp(argv[1], s.name)) {
      s.run();
      return failures != 0;
    }
  if (argc == 2 && !std::strcmp(argv[1], "init")) return init(), 0;
  if (argc == 1)
    for (const Scenario &s : kScenarios) std::printf("%s\n", s.name);
  return argc == 1 ? 0 : 2;
}
