// CUDA's driver, opened when a GPU is asked for: its functions, and what its errors mean. Declared here and not by
// CUDA's headers, so that every build can run on GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstddef>
#include <string>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace opc::runtime::cuda {

using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;

// Result codes of cuda.h.
constexpr CuResult kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600, kPeerAlreadyEnabled = 704;

/// CUDA_MEMCPY2D of cuda.h: rows of bytes, of which only copies within a device are made.
struct CuRows {
  size_t fromX = 0, fromY = 0;
  int fromKind = kDeviceMemory;
  const void *fromHost = nullptr;
  CuPointer from = 0;
  void *fromArray = nullptr;
  size_t fromPitch = 0, toX = 0, toY = 0;
  int toKind = kDeviceMemory;
  void *toHost = nullptr;
  CuPointer to = 0;
  void *toArray = nullptr;
  size_t toPitch = 0, width = 0, height = 0;
  static constexpr int kDeviceMemory = 2; // CU_MEMORYTYPE_DEVICE
};
static_assert(sizeof(CuRows) == 128);

// X(member, exported name, parameter types)
#define OPC_CUDA_FUNCTIONS(X)                                                                                          \
  X(init, "cuInit", (unsigned))                                                                                        \
  X(driverGetVersion, "cuDriverGetVersion", (int *))                                                                   \
  X(deviceGetCount, "cuDeviceGetCount", (int *))                                                                       \
  X(deviceGet, "cuDeviceGet", (CuDevice *, int))                                                                       \
  X(deviceGetName, "cuDeviceGetName", (char *, int, CuDevice))                                                         \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *, int, CuDevice))                                                \
  X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, CuDevice))                                                       \
  X(deviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *, CuDevice, CuDevice))                                         \
  X(primaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUctx_st **, CuDevice))                                             \
  X(primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CuDevice))                                                     \
  X(ctxSetCurrent, "cuCtxSetCurrent", (CUctx_st *))                                                                    \
  X(ctxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUctx_st *, unsigned))                                              \
  X(getErrorName, "cuGetErrorName", (CuResult, const char **))                                                         \
  X(getErrorString, "cuGetErrorString", (CuResult, const char **))                                                     \
  X(memAlloc, "cuMemAlloc_v2", (CuPointer *, size_t))                                                                  \
  X(memFree, "cuMemFree_v2", (CuPointer))                                                                              \
  X(memGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                               \
  X(memHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                       \
  X(memFreeHost, "cuMemFreeHost", (void *))                                                                            \
  X(copyToDevice, "cuMemcpyHtoDAsync_v2", (CuPointer, const void *, size_t, CUstream_st *))                            \
  X(copyToHost, "cuMemcpyDtoHAsync_v2", (void *, CuPointer, size_t, CUstream_st *))                                    \
  X(copyOnDevice, "cuMemcpyDtoDAsync_v2", (CuPointer, CuPointer, size_t, CUstream_st *))                               \
  X(copyPeer, "cuMemcpyPeerAsync", (CuPointer, CUctx_st *, CuPointer, CUctx_st *, size_t, CUstream_st *))              \
  X(copyRows, "cuMemcpy2DAsync_v2", (const CuRows *, CUstream_st *))                                                   \
  X(setBytes, "cuMemsetD8Async", (CuPointer, unsigned char, size_t, CUstream_st *))                                    \
  X(streamCreate, "cuStreamCreate", (CUstream_st **, unsigned))                                                        \
  X(streamDestroy, "cuStreamDestroy_v2", (CUstream_st *))                                                              \
  X(streamSynchronize, "cuStreamSynchronize", (CUstream_st *))                                                         \
  X(streamQuery, "cuStreamQuery", (CUstream_st *))                                                                     \
  X(streamWaitEvent, "cuStreamWaitEvent", (CUstream_st *, CUevent_st *, unsigned))                                     \
  X(eventCreate, "cuEventCreate", (CUevent_st **, unsigned))                                                           \
  X(eventDestroy, "cuEventDestroy_v2", (CUevent_st *))                                                                 \
  X(eventRecord, "cuEventRecord", (CUevent_st *, CUstream_st *))                                                       \
  X(streamBeginCapture, "cuStreamBeginCapture_v2", (CUstream_st *, int))                                               \
  X(streamEndCapture, "cuStreamEndCapture", (CUstream_st *, CUgraph_st **))                                            \
  X(graphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec_st **, CUgraph_st *, unsigned long long))            \
  X(graphLaunch, "cuGraphLaunch", (CUgraphExec_st *, CUstream_st *))                                                   \
  X(graphExecDestroy, "cuGraphExecDestroy", (CUgraphExec_st *))                                                        \
  X(graphDestroy, "cuGraphDestroy", (CUgraph_st *))                                                                    \
  X(eventSynchronize, "cuEventSynchronize", (CUevent_st *))                                                            \
  X(moduleLoadData, "cuModuleLoadData", (CUmod_st **, const void *))                                                   \
  X(moduleUnload, "cuModuleUnload", (CUmod_st *))                                                                      \
  X(moduleGetFunction, "cuModuleGetFunction", (CUfunc_st **, CUmod_st *, const char *))                                \
  X(launchKernel, "cuLaunchKernel",                                                                                    \
    (CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream_st *, void **,        \
     void **))

/// The functions of one driver library.
class CudaDriver {
public:
  /// The driver of this machine, or the simulator that opc brings (tools/gpusim), opened once a process. OPC0630 when
  /// there is none, when it is too old, or when it cannot be used.
  static Result<const CudaDriver *> open(bool isSimulator);
  /// The simulator where it has been opened, else null.
  static const CudaDriver *openedSimulator();
  /// Where the library was looked for: the system's by name, the simulator's beside the program.
  static std::string path(bool isSimulator);

  bool isSimulator() const { return isSimulator_; }
  /// 13000 for CUDA 13.0.
  int version() const { return version_; }
  int deviceCount() const { return devices_; }

  /// The simulator's counters and findings so far, as JSON (docs/gpu-simulator.md); "" of a GPU's driver.
  std::string simulatorReport() const;
  /// How many findings it has; 0 of a GPU's driver.
  size_t simulatorFindings() const { return findings_ ? findings_() : 0; }
  /// How many of them are errors of a program, whether it has looked or not.
  size_t simulatorErrors() const { return errors_ ? errors_() : 0; }
  /// Whether the simulator prints its findings.
  void setPrints(bool prints) const;
  /// Opens the simulator's own CUDA runtime, which libraries that are loaded later find by its name. Nothing where it
  /// is not there.
  static void openSimulatedRuntime();

  /// A result as an error of what was tried: OPC0631 with CUDA's name and text.
  Status check(CuResult result, const std::string &what) const {
    return result == kSuccess ? Status() : failure(result, what);
  }
  /// "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered".
  std::string text(CuResult result) const;

#define OPC_DECLARE(member, name, parameters) CuResult(*member) parameters = nullptr;
  OPC_CUDA_FUNCTIONS(OPC_DECLARE)
#undef OPC_DECLARE

private:
  Status load(bool isSimulator);
  Status failure(CuResult result, const std::string &what) const;
  bool isSimulator_ = false;
  int version_ = 0, devices_ = 0;
  size_t (*report_)(char *, size_t) = nullptr;
  size_t (*findings_)() = nullptr, (*errors_)() = nullptr;
  void (*print_)(int) = nullptr;
};

/// "13.0" for 13000.
std::string cudaVersionText(int version);

} // namespace opc::runtime::cuda
