// The functions of CUDA's runtime that kernels' host code calls, over the driver's.
// SPDX-License-Identifier: Apache-2.0
#include "RuntimeState.h"

namespace opc::gpusim::cudart {
namespace {

/// X(value, name) of the errors that the driver does not know under that name, or at all.
#define GPUSIM_RUNTIME_ERRORS(X)                                                                                       \
  X(0, "cudaSuccess")                                                                                                  \
  X(1, "cudaErrorInvalidValue")                                                                                        \
  X(2, "cudaErrorMemoryAllocation")                                                                                    \
  X(3, "cudaErrorInitializationError")                                                                                 \
  X(9, "cudaErrorInvalidConfiguration")                                                                                \
  X(13, "cudaErrorInvalidSymbol")                                                                                      \
  X(21, "cudaErrorInvalidMemcpyDirection")                                                                             \
  X(35, "cudaErrorInsufficientDriver")                                                                                 \
  X(52, "cudaErrorMissingConfiguration")                                                                               \
  X(98, "cudaErrorInvalidDeviceFunction")                                                                              \
  X(100, "cudaErrorNoDevice")                                                                                          \
  X(101, "cudaErrorInvalidDevice")                                                                                     \
  X(200, "cudaErrorInvalidKernelImage")                                                                                \
  X(201, "cudaErrorDeviceUninitialized")                                                                               \
  X(209, "cudaErrorNoKernelImageForDevice")                                                                            \
  X(218, "cudaErrorInvalidPtx")                                                                                        \
  X(222, "cudaErrorUnsupportedPtxVersion")                                                                             \
  X(400, "cudaErrorInvalidResourceHandle")                                                                             \
  X(500, "cudaErrorSymbolNotFound")                                                                                    \
  X(600, "cudaErrorNotReady")                                                                                          \
  X(700, "cudaErrorIllegalAddress")                                                                                    \
  X(701, "cudaErrorLaunchOutOfResources")                                                                              \
  X(702, "cudaErrorLaunchTimeout")                                                                                     \
  X(704, "cudaErrorPeerAccessAlreadyEnabled")                                                                          \
  X(705, "cudaErrorPeerAccessNotEnabled")                                                                              \
  X(710, "cudaErrorAssert")                                                                                            \
  X(715, "cudaErrorIllegalInstruction")                                                                                \
  X(716, "cudaErrorMisalignedAddress")                                                                                 \
  X(719, "cudaErrorLaunchFailure")                                                                                     \
  X(800, "cudaErrorNotPermitted")                                                                                      \
  X(801, "cudaErrorNotSupported")                                                                                      \
  X(900, "cudaErrorStreamCaptureUnsupported")                                                                          \
  X(901, "cudaErrorStreamCaptureInvalidated")                                                                          \
  X(904, "cudaErrorStreamCaptureUnjoined")                                                                             \
  X(999, "cudaErrorUnknown")

struct FunctionAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCa, maxDynamicSharedSizeBytes, carveout;
  int clusterDimMustBeSet, clusterWidth, clusterHeight, clusterDepth, clusterPolicy, nonPortableCluster, reserved[16];
};

uint64_t address(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

/// cudaMemcpyKind is what the addresses say, or an error.
int checkKind(int kind) { return kind >= 0 && kind <= 4 ? 0 : kInvalidCopyDirection; }

Copy2D rows(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width, size_t height) {
  Copy2D c = {};
  c.srcMemoryType = c.dstMemoryType = kMemoryUnified;
  c.srcDevice = address(from), c.srcPitch = fromPitch;
  c.dstDevice = address(to), c.dstPitch = toPitch;
  c.widthInBytes = width, c.height = height;
  return c;
}

CuFunction *asFunction(CuKernel *kernel) { return reinterpret_cast<CuFunction *>(kernel); }

int contextOf(int device, Context **context) {
  RuntimeState &state = RuntimeState::instance();
  const std::lock_guard<std::mutex> lock(state.mutex);
  Context *&known = state.contexts[device];
  if (!known)
    if (const int r = cuDevicePrimaryCtxRetain(&known, device)) return state.contexts.erase(device), r;
  *context = known;
  return kSuccess;
}

} // namespace

int &lastError() {
  thread_local int error = 0;
  return error;
}

int &currentDevice() {
  thread_local int device = 0;
  return device;
}

int remember(int error) {
  if (error && error != kNotReady) lastError() = error;
  return error;
}

int useDevice() {
  if (const int r = cuInit(0)) return r;
  Context *current = nullptr, *wanted = nullptr;
  if (const int r = cuCtxGetCurrent(&current)) return r;
  if (current) return kSuccess; // the caller's own, by the driver interface, or ours
  if (const int r = contextOf(currentDevice(), &wanted)) return r;
  return cuCtxSetCurrent(wanted);
}

// --- errors and devices ---------------------------------------------------------------------------------------------

GPUSIM_RUNTIME int cudaGetLastError() {
  const int error = lastError();
  lastError() = 0;
  return error;
}
GPUSIM_RUNTIME int cudaPeekAtLastError() { return lastError(); }

GPUSIM_RUNTIME const char *cudaGetErrorName(int error) {
#define GPUSIM_NAME(value, name)                                                                                       \
  if (error == value) return name;
  GPUSIM_RUNTIME_ERRORS(GPUSIM_NAME)
#undef GPUSIM_NAME
  const char *name = nullptr;
  return cuGetErrorName(static_cast<CuResult>(error), &name) ? "unrecognized error code" : name;
}

GPUSIM_RUNTIME const char *cudaGetErrorString(int error) {
  switch (error) {
  case kInvalidConfiguration: return "invalid configuration argument";
  case kInvalidSymbol: return "invalid device symbol";
  case kInvalidCopyDirection: return "invalid copy direction for memcpy";
  case kInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
  case kMissingConfiguration: return "__global__ function call is not configured";
  case kInvalidDeviceFunction: return "invalid device function";
  default: break;
  }
  const char *text = nullptr;
  return cuGetErrorString(static_cast<CuResult>(error), &text) ? "unrecognized error code" : text;
}

GPUSIM_RUNTIME int cudaGetDeviceCount(int *count) {
  const int r = cuInit(0);
  return remember(r ? r : cuDeviceGetCount(count));
}
GPUSIM_RUNTIME int cudaGetDevice(int *device) {
  return call([&] { return cuCtxGetDevice(device); });
}
GPUSIM_RUNTIME int cudaSetDevice(int device) {
  Context *context = nullptr;
  int r = cuInit(0);
  if (!r) r = contextOf(device, &context);
  if (!r) r = cuCtxSetCurrent(context);
  if (!r) currentDevice() = device;
  return remember(r);
}
GPUSIM_RUNTIME int cudaDeviceSynchronize() {
  return call([] { return cuCtxSynchronize(); });
}
GPUSIM_RUNTIME int cudaDeviceReset() {
  return call([] { return cuDevicePrimaryCtxReset_v2(currentDevice()); });
}
GPUSIM_RUNTIME int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  return call([&] { return cuDeviceGetAttribute(value, static_cast<DeviceAttribute>(attribute), device); });
}
GPUSIM_RUNTIME int cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  return call([&] { return cuDeviceCanAccessPeer(can, device, peer); });
}
GPUSIM_RUNTIME int cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call([&]() -> int {
    Context *context = nullptr;
    const int r = contextOf(peer, &context);
    return r ? r : cuCtxEnablePeerAccess(context, flags);
  });
}
GPUSIM_RUNTIME int cudaDriverGetVersion(int *version) { return remember(cuDriverGetVersion(version)); }
GPUSIM_RUNTIME int cudaRuntimeGetVersion(int *version) {
  if (!version) return remember(kInvalidValue);
  *version = 13000;
  return kSuccess;
}

// --- memory ---------------------------------------------------------------------------------------------------------

GPUSIM_RUNTIME int cudaMalloc(void **pointer, size_t bytes) {
  return call([&] {
    DevicePtr p = 0;
    if (!pointer) return kInvalidValue;
    *pointer = nullptr;
    const CuResult r = bytes ? cuMemAlloc_v2(&p, bytes) : kSuccess;
    if (!r) *pointer = reinterpret_cast<void *>(p);
    return r;
  });
}
GPUSIM_RUNTIME int cudaFree(void *pointer) {
  return call([&] { return cuMemFree_v2(address(pointer)); });
}
GPUSIM_RUNTIME int cudaMallocHost(void **pointer, size_t bytes) {
  return call([&] { return cuMemAllocHost_v2(pointer, bytes); });
}
GPUSIM_RUNTIME int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostAlloc(pointer, bytes, flags); });
}
GPUSIM_RUNTIME int cudaFreeHost(void *pointer) {
  return call([&] { return pointer ? cuMemFreeHost(pointer) : kSuccess; });
}
GPUSIM_RUNTIME int cudaHostRegister(void *pointer, size_t bytes, unsigned flags) {
  return call([&] { return cuMemHostRegister_v2(pointer, bytes, flags); });
}
GPUSIM_RUNTIME int cudaHostUnregister(void *pointer) {
  return call([&] { return cuMemHostUnregister(pointer); });
}
GPUSIM_RUNTIME int cudaMemGetInfo(size_t *free, size_t *total) {
  return call([&] { return cuMemGetInfo_v2(free, total); });
}
GPUSIM_RUNTIME int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
  return call([&]() -> int {
    const int r = checkKind(kind);
    return r ? r : cuMemcpy(address(to), address(from), bytes);
  });
}
GPUSIM_RUNTIME int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, Stream *stream) {
  return call([&]() -> int {
    const int r = checkKind(kind);
    return r ? r : cuMemcpyAsync(address(to), address(from), bytes, stream);
  });
}
GPUSIM_RUNTIME int cudaMemcpy2D(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                                size_t height, int kind) {
  return call([&]() -> int {
    const Copy2D c = rows(to, toPitch, from, fromPitch, width, height);
    const int r = checkKind(kind);
    return r ? r : cuMemcpy2D_v2(&c);
  });
}
GPUSIM_RUNTIME int cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
                                     size_t height, int kind, Stream *stream) {
  return call([&]() -> int {
    const Copy2D c = rows(to, toPitch, from, fromPitch, width, height);
    const int r = checkKind(kind);
    return r ? r : cuMemcpy2DAsync_v2(&c, stream);
  });
}
GPUSIM_RUNTIME int cudaMemcpyPeerAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
                                       Stream *stream) {
  return call([&]() -> int {
    Context *toContext = nullptr, *fromContext = nullptr;
    int r = contextOf(toDevice, &toContext);
    if (!r) r = contextOf(fromDevice, &fromContext);
    return r ? r : cuMemcpyPeerAsync(address(to), toContext, address(from), fromContext, bytes, stream);
  });
}
GPUSIM_RUNTIME int cudaMemset(void *to, int value, size_t bytes) {
  return call([&] { return cuMemsetD8_v2(address(to), static_cast<unsigned char>(value), bytes); });
}
GPUSIM_RUNTIME int cudaMemsetAsync(void *to, int value, size_t bytes, Stream *stream) {
  return call([&] { return cuMemsetD8Async(address(to), static_cast<unsigned char>(value), bytes, stream); });
}

/// An address within a __device__ or __constant__ variable.
static int inVariable(const void *symbol, size_t bytes, size_t offset, DevicePtr *pointer) {
  size_t size = 0;
  if (const int r = variableOf(symbol, pointer, &size)) return r;
  if (offset > size || bytes > size - offset) return kInvalidValue;
  *pointer += offset;
  return kSuccess;
}
GPUSIM_RUNTIME int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, int kind) {
  return call([&]() -> int {
    DevicePtr p = 0;
    int r = checkKind(kind);
    if (!r) r = inVariable(symbol, bytes, offset, &p);
    return r ? r : cuMemcpy(p, address(from), bytes);
  });
}
GPUSIM_RUNTIME int cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset, int kind,
                                           Stream *stream) {
  return call([&]() -> int {
    DevicePtr p = 0;
    int r = checkKind(kind);
    if (!r) r = inVariable(symbol, bytes, offset, &p);
    return r ? r : cuMemcpyAsync(p, address(from), bytes, stream);
  });
}
GPUSIM_RUNTIME int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, int kind) {
  return call([&]() -> int {
    DevicePtr p = 0;
    int r = checkKind(kind);
    if (!r) r = inVariable(symbol, bytes, offset, &p);
    return r ? r : cuMemcpy(address(to), p, bytes);
  });
}
GPUSIM_RUNTIME int cudaGetSymbolAddress(void **pointer, const void *symbol) {
  return call([&]() -> int {
    DevicePtr p = 0;
    const int r = inVariable(symbol, 0, 0, &p);
    if (!r) *pointer = reinterpret_cast<void *>(p);
    return r;
  });
}
GPUSIM_RUNTIME int cudaGetSymbolSize(size_t *bytes, const void *symbol) {
  return call([&] {
    DevicePtr p = 0;
    return variableOf(symbol, &p, bytes);
  });
}

// --- streams, events, graphs
// ------------------------------------------------------------------------------------------

GPUSIM_RUNTIME int cudaStreamCreate(Stream **stream) {
  return call([&] { return cuStreamCreate(stream, 0); });
}
GPUSIM_RUNTIME int cudaStreamCreateWithFlags(Stream **stream, unsigned flags) {
  return call([&] { return cuStreamCreate(stream, flags); });
}
GPUSIM_RUNTIME int cudaStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  return call([&] { return cuStreamCreateWithPriority(stream, flags, priority); });
}
GPUSIM_RUNTIME int cudaStreamDestroy(Stream *stream) {
  return call([&] { return cuStreamDestroy_v2(stream); });
}
GPUSIM_RUNTIME int cudaStreamSynchronize(Stream *stream) {
  return call([&] { return cuStreamSynchronize(stream); });
}
GPUSIM_RUNTIME int cudaStreamQuery(Stream *stream) {
  return call([&] { return cuStreamQuery(stream); });
}
GPUSIM_RUNTIME int cudaStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
  return call([&] { return cuStreamWaitEvent(stream, event, flags); });
}
GPUSIM_RUNTIME int cudaLaunchHostFunc(Stream *stream, HostFunction function, void *data) {
  return call([&] { return cuLaunchHostFunc(stream, function, data); });
}
GPUSIM_RUNTIME int cudaEventCreate(Event **event) {
  return call([&] { return cuEventCreate(event, 0); });
}
GPUSIM_RUNTIME int cudaEventCreateWithFlags(Event **event, unsigned flags) {
  return call([&] { return cuEventCreate(event, flags); });
}
GPUSIM_RUNTIME int cudaEventDestroy(Event *event) {
  return call([&] { return cuEventDestroy_v2(event); });
}
GPUSIM_RUNTIME int cudaEventRecord(Event *event, Stream *stream) {
  return call([&] { return cuEventRecord(event, stream); });
}
GPUSIM_RUNTIME int cudaEventSynchronize(Event *event) {
  return call([&] { return cuEventSynchronize(event); });
}
GPUSIM_RUNTIME int cudaEventQuery(Event *event) {
  return call([&] { return cuEventQuery(event); });
}
GPUSIM_RUNTIME int cudaEventElapsedTime(float *milliseconds, Event *start, Event *end) {
  return call([&] { return cuEventElapsedTime_v2(milliseconds, start, end); });
}
GPUSIM_RUNTIME int cudaStreamBeginCapture(Stream *stream, int mode) {
  return call([&] { return cuStreamBeginCapture_v2(stream, static_cast<CaptureMode>(mode)); });
}
GPUSIM_RUNTIME int cudaStreamEndCapture(Stream *stream, CuGraph **graph) {
  return call([&] { return cuStreamEndCapture(stream, graph); });
}
GPUSIM_RUNTIME int cudaStreamIsCapturing(Stream *stream, CaptureStatus *status) {
  return call([&] { return cuStreamIsCapturing(stream, status); });
}
GPUSIM_RUNTIME int cudaGraphInstantiate(CuGraphExec **exec, CuGraph *graph, unsigned long long flags) {
  return call([&] { return cuGraphInstantiateWithFlags(exec, graph, flags); });
}
GPUSIM_RUNTIME int cudaGraphLaunch(CuGraphExec *exec, Stream *stream) {
  return call([&] { return cuGraphLaunch(exec, stream); });
}
GPUSIM_RUNTIME int cudaGraphExecDestroy(CuGraphExec *exec) {
  return call([&] { return cuGraphExecDestroy(exec); });
}
GPUSIM_RUNTIME int cudaGraphDestroy(CuGraph *graph) {
  return call([&] { return cuGraphDestroy(graph); });
}

// --- kernels
// ----------------------------------------------------------------------------------------------------------

GPUSIM_RUNTIME int cudaFuncGetAttributes(FunctionAttributes *attributes, const void *function) {
  return call([&]() -> int {
    CuKernel *kernel = nullptr;
    if (!attributes) return kInvalidValue;
    if (const int r = kernelOf(function, &kernel)) return r;
    *attributes = {};
    const auto get = [&](FunctionAttribute which) {
      int value = 0;
      cuFuncGetAttribute(&value, which, asFunction(kernel));
      return value;
    };
    attributes->sharedSizeBytes = static_cast<size_t>(get(kFunctionSharedSizeBytes));
    attributes->localSizeBytes = static_cast<size_t>(get(kFunctionLocalSizeBytes));
    attributes->maxThreadsPerBlock = get(kFunctionMaxThreadsPerBlock);
    attributes->ptxVersion = get(kFunctionPtxVersion);
    attributes->binaryVersion = get(kFunctionBinaryVersion);
    attributes->maxDynamicSharedSizeBytes = get(kFunctionMaxDynamicSharedSizeBytes);
    attributes->carveout = -1;
    return kSuccess;
  });
}
GPUSIM_RUNTIME int cudaFuncSetAttribute(const void *function, int attribute, int value) {
  return call([&]() -> int {
    CuKernel *kernel = nullptr;
    const int r = kernelOf(function, &kernel);
    return r ? r : cuFuncSetAttribute(asFunction(kernel), static_cast<FunctionAttribute>(attribute), value);
  });
}
GPUSIM_RUNTIME int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                          int blockSize, size_t shared, unsigned) {
  return call([&]() -> int {
    CuKernel *kernel = nullptr;
    const int r = kernelOf(function, &kernel);
    return r ? r : cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, asFunction(kernel), blockSize, shared);
  });
}
GPUSIM_RUNTIME int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int blockSize,
                                                                 size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, blockSize, shared, 0);
}

} // namespace opc::gpusim::cudart
