// The types of the driver interface as they are in memory and in calls: what CUDA's documentation says of cuda.h, for
// builds that have no cuda.h. AbiCheck.cpp compares all of it where there is one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace opc::gpusim::driver {

/// X(name, CUDA's name, value, text)
#define GPUSIM_RESULTS(X)                                                                                                              \
  X(Success, CUDA_SUCCESS, 0, "no error")                                                                                              \
  X(InvalidValue, CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                                                     \
  X(OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                                         \
  X(NotInitialized, CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                                             \
  X(Deinitialized, CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                                                \
  X(StubLibrary, CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")                                                         \
  X(NoDevice, CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                                                         \
  X(InvalidDevice, CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                           \
  X(InvalidImage, CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                                     \
  X(InvalidContext, CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                                                         \
  X(NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")                     \
  X(PeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217,                                                                    \
    "peer access is not supported between these two devices")                                                                          \
  X(InvalidPtx, CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                                           \
  X(UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222,                                                                    \
    "the provided PTX was compiled with an unsupported toolchain")                                                                     \
  X(InvalidSource, CUDA_ERROR_INVALID_SOURCE, 300, "device kernel image is invalid")                                                   \
  X(FileNotFound, CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                                                                    \
  X(OperatingSystem, CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS")                         \
  X(InvalidHandle, CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                                          \
  X(IllegalState, CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state")                             \
  X(NotFound, CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                                                     \
  X(NotReady, CUDA_ERROR_NOT_READY, 600, "device not ready")                                                                           \
  X(IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                                       \
  X(LaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                          \
  X(LaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                                          \
  X(PeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")                           \
  X(PeerAccessNotEnabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")                                 \
  X(PrimaryContextActive, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is in use")                                     \
  X(ContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                                                  \
  X(Assert, CUDA_ERROR_ASSERT, 710, "device-side assert triggered")                                                                    \
  X(HostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712,                                                       \
    "part or all of the requested memory range is already mapped")                                                                     \
  X(HostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713,                                                               \
    "pointer does not correspond to a registered memory region")                                                                       \
  X(HardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "hardware stack error")                                                  \
  X(IllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                                 \
  X(MisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                                       \
  X(InvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, "operation not supported on this address space")                       \
  X(InvalidPc, CUDA_ERROR_INVALID_PC, 718, "invalid program counter")                                                                  \
  X(LaunchFailed, CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                                         \
  X(NotPermitted, CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                                            \
  X(NotSupported, CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                            \
  X(StreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900,                                                              \
    "operation not permitted when stream is capturing")                                                                                \
  X(StreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901,                                                              \
    "operation failed due to a previous error during capture")                                                                         \
  X(StreamCaptureMerge, CUDA_ERROR_STREAM_CAPTURE_MERGE, 902,                                                                          \
    "operation would result in a merge of separate capture sequences")                                                                 \
  X(StreamCaptureUnmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903,                                                                  \
    "capture was not ended in the same stream as it began")                                                                            \
  X(StreamCaptureUnjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work")                              \
  X(StreamCaptureIsolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905,                                                                  \
    "dependency created on uncaptured work in another stream")                                                                         \
  X(StreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906,                                                                    \
    "operation would make the legacy stream depend on a capturing blocking stream")                                                    \
  X(CapturedEvent, CUDA_ERROR_CAPTURED_EVENT, 907,                                                                                     \
    "operation not permitted on an event last recorded in a capturing stream")                                                         \
  X(StreamCaptureWrongThread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908,                                                             \
    "attempt to terminate a thread-local capture sequence from another thread")                                                        \
  X(GraphExecUpdateFailure, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910,                                                                 \
    "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update") \
  X(Unknown, CUDA_ERROR_UNKNOWN, 999, "unknown error")

enum CuResult : int {
#define GPUSIM_RESULT(name, cudaName, value, text) k##name = value,
  GPUSIM_RESULTS(GPUSIM_RESULT)
#undef GPUSIM_RESULT
};

/// X(name, CUDA's name behind CU_DEVICE_ATTRIBUTE_, value)
#define GPUSIM_DEVICE_ATTRIBUTES(X)                                                                                    \
  X(MaxThreadsPerBlock, MAX_THREADS_PER_BLOCK, 1)                                                                      \
  X(MaxBlockDimX, MAX_BLOCK_DIM_X, 2)                                                                                  \
  X(MaxBlockDimY, MAX_BLOCK_DIM_Y, 3)                                                                                  \
  X(MaxBlockDimZ, MAX_BLOCK_DIM_Z, 4)                                                                                  \
  X(MaxGridDimX, MAX_GRID_DIM_X, 5)                                                                                    \
  X(MaxGridDimY, MAX_GRID_DIM_Y, 6)                                                                                    \
  X(MaxGridDimZ, MAX_GRID_DIM_Z, 7)                                                                                    \
  X(MaxSharedPerBlock, MAX_SHARED_MEMORY_PER_BLOCK, 8)                                                                 \
  X(TotalConstantMemory, TOTAL_CONSTANT_MEMORY, 9)                                                                     \
  X(WarpSize, WARP_SIZE, 10)                                                                                           \
  X(MaxPitch, MAX_PITCH, 11)                                                                                           \
  X(MaxRegistersPerBlock, MAX_REGISTERS_PER_BLOCK, 12)                                                                 \
  X(ClockRate, CLOCK_RATE, 13)                                                                                         \
  X(MultiprocessorCount, MULTIPROCESSOR_COUNT, 16)                                                                     \
  X(ConcurrentKernels, CONCURRENT_KERNELS, 31)                                                                         \
  X(MemoryClockRate, MEMORY_CLOCK_RATE, 36)                                                                            \
  X(GlobalMemoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH, 37)                                                                 \
  X(L2CacheSize, L2_CACHE_SIZE, 38)                                                                                    \
  X(MaxThreadsPerMultiprocessor, MAX_THREADS_PER_MULTIPROCESSOR, 39)                                                   \
  X(AsyncEngineCount, ASYNC_ENGINE_COUNT, 40)                                                                          \
  X(UnifiedAddressing, UNIFIED_ADDRESSING, 41)                                                                         \
  X(ComputeCapabilityMajor, COMPUTE_CAPABILITY_MAJOR, 75)                                                              \
  X(ComputeCapabilityMinor, COMPUTE_CAPABILITY_MINOR, 76)                                                              \
  X(StreamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED, 78)                                                        \
  X(MaxSharedPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81)                                              \
  X(MaxRegistersPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR, 82)                                               \
  X(MaxSharedPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)                                                     \
  X(HostRegisterSupported, HOST_REGISTER_SUPPORTED, 99)                                                                \
  X(MaxBlocksPerMultiprocessor, MAX_BLOCKS_PER_MULTIPROCESSOR, 106)                                                    \
  X(ReservedSharedPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK, 111)

enum DeviceAttribute : int {
#define GPUSIM_ATTRIBUTE(name, cudaName, value) kAttribute##name = value,
  GPUSIM_DEVICE_ATTRIBUTES(GPUSIM_ATTRIBUTE)
#undef GPUSIM_ATTRIBUTE
};
constexpr int kLastDeviceAttribute = 160; // what is not above and not beyond is answered with 0

enum FunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedSizeBytes = 1,
  kFunctionConstSizeBytes = 2,
  kFunctionLocalSizeBytes = 3,
  kFunctionNumRegs = 4,
  kFunctionPtxVersion = 5,
  kFunctionBinaryVersion = 6,
  kFunctionCacheModeCa = 7,
  kFunctionMaxDynamicSharedSizeBytes = 8,
  kFunctionPreferredSharedMemoryCarveout = 9,
};

enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDevicePointer = 3,
  kPointerHostPointer = 4,
  kPointerDeviceOrdinal = 9,
};
enum MemoryType : int { kMemoryHost = 1, kMemoryDevice = 2, kMemoryArray = 3, kMemoryUnified = 4 };
enum JitOption : int { kJitInfoLog = 3, kJitInfoLogBytes = 4, kJitErrorLog = 5, kJitErrorLogBytes = 6 };
enum LibraryOption : int { kLibraryHostUniversalFunctionTable = 0, kLibraryBinaryIsPreserved = 1 };
enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2 };
enum GraphNodeKind : int { kNodeKernel = 0, kNodeMemcpy = 1, kNodeMemset = 2, kNodeHost = 3, kNodeEmpty = 5 };
enum GraphUpdate : int {
  kUpdateSuccess = 0,
  kUpdateError = 1,
  kUpdateTopologyChanged = 2,
  kUpdateNodeTypeChanged = 3,
  kUpdateFunctionChanged = 4,
};
enum ProcAddressStatus : int { kProcFound = 0, kProcNotFound = 1, kProcVersionNotSufficient = 2 };

constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2, kEventInterprocess = 4, kEventBlockingSync = 1;
constexpr uintptr_t kStreamLegacy = 1, kStreamPerThread = 2; // handles

using DevicePtr = unsigned long long;
using Device = int;
struct Context;
struct Stream;
struct Event;
struct CuModule;
struct CuFunction;
struct CuKernel;
struct CuLibrary;
struct CuGraph;
struct CuGraphExec;
struct CuGraphNode;
struct CuArray;
using HostFunction = void (*)(void *);
using SharedOfBlockSize = size_t (*)(int);

struct Uuid {
  char bytes[16];
};

struct Copy2D {
  size_t srcXInBytes, srcY;
  MemoryType srcMemoryType;
  const void *srcHost;
  DevicePtr srcDevice;
  CuArray *srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  MemoryType dstMemoryType;
  void *dstHost;
  DevicePtr dstDevice;
  CuArray *dstArray;
  size_t dstPitch;
  size_t widthInBytes, height;
};

struct LaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  Stream *stream;
  void *attributes;
  unsigned attributeCount;
};

struct GraphUpdateInfo {
  GraphUpdate result;
  CuGraphNode *node, *from;
};

} // namespace opc::gpusim::driver
