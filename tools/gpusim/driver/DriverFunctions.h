// Every function that the stand-in exports: symbol, the name by which cuGetProcAddress knows it, parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaAbi.h"

/// X(symbol, name, (parameters))
#define GPUSIM_FUNCTIONS(X)                                                                                            \
  X(cuInit, "cuInit", (unsigned flags))                                                                                \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int *version))                                                          \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                                                \
  X(cuDeviceGet, "cuDeviceGet", (Device * device, int ordinal))                                                        \
  X(cuDeviceGetName, "cuDeviceGetName", (char *name, int bytes, Device device))                                        \
  X(cuDeviceGetUuid_v2, "cuDeviceGetUuid", (Uuid * uuid, Device device))                                               \
  X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *id, int bytes, Device device))                                  \
  X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", (size_t *bytes, Device device))                                           \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *value, DeviceAttribute attribute, Device device))              \
  X(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *can, Device device, Device peer))                            \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (Context * *context, Device device))                         \
  X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", (Device device))                                        \
  X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", (Device device))                                            \
  X(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", (Device device, unsigned *flags, int *active))           \
  X(cuDevicePrimaryCtxSetFlags_v2, "cuDevicePrimaryCtxSetFlags", (Device device, unsigned flags))                      \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (Context * context))                                                           \
  X(cuCtxGetCurrent, "cuCtxGetCurrent", (Context * *context))                                                          \
  X(cuCtxGetDevice, "cuCtxGetDevice", (Device * device))                                                               \
  X(cuCtxPushCurrent_v2, "cuCtxPushCurrent", (Context * context))                                                      \
  X(cuCtxPopCurrent_v2, "cuCtxPopCurrent", (Context * *context))                                                       \
  X(cuCtxSynchronize, "cuCtxSynchronize", ())                                                                          \
  X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))                           \
  X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (Context * peer, unsigned flags))                                  \
  X(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", (Context * peer))                                                \
  X(cuGetErrorName, "cuGetErrorName", (CuResult result, const char **name))                                            \
  X(cuGetErrorString, "cuGetErrorString", (CuResult result, const char **text))                                        \
  X(cuGetProcAddress_v2, "cuGetProcAddress",                                                                           \
    (const char *symbol, void **function, int version, uint64_t flags, ProcAddressStatus *status))                     \
  X(cuMemAlloc_v2, "cuMemAlloc", (DevicePtr * pointer, size_t bytes))                                                  \
  X(cuMemFree_v2, "cuMemFree", (DevicePtr pointer))                                                                    \
  X(cuMemGetInfo_v2, "cuMemGetInfo", (size_t *free, size_t *total))                                                    \
  X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", (DevicePtr * base, size_t *bytes, DevicePtr pointer))             \
  X(cuMemHostAlloc, "cuMemHostAlloc", (void **pointer, size_t bytes, unsigned flags))                                  \
  X(cuMemAllocHost_v2, "cuMemAllocHost", (void **pointer, size_t bytes))                                               \
  X(cuMemFreeHost, "cuMemFreeHost", (void *pointer))                                                                   \
  X(cuMemHostRegister_v2, "cuMemHostRegister", (void *pointer, size_t bytes, unsigned flags))                          \
  X(cuMemHostUnregister, "cuMemHostUnregister", (void *pointer))                                                       \
  X(cuMemHostGetDevicePointer_v2, "cuMemHostGetDevicePointer", (DevicePtr * device, void *pointer, unsigned flags))    \
  X(cuMemHostGetFlags, "cuMemHostGetFlags", (unsigned *flags, void *pointer))                                          \
  X(cuPointerGetAttribute, "cuPointerGetAttribute", (void *data, PointerAttribute attribute, DevicePtr pointer))       \
  X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", (DevicePtr to, const void *from, size_t bytes))                                   \
  X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", (void *to, DevicePtr from, size_t bytes))                                         \
  X(cuMemcpyDtoD_v2, "cuMemcpyDtoD", (DevicePtr to, DevicePtr from, size_t bytes))                                     \
  X(cuMemcpy, "cuMemcpy", (DevicePtr to, DevicePtr from, size_t bytes))                                                \
  X(cuMemcpyPeer, "cuMemcpyPeer",                                                                                      \
    (DevicePtr to, Context * toContext, DevicePtr from, Context * fromContext, size_t bytes))                          \
  X(cuMemcpy2D_v2, "cuMemcpy2D", (const Copy2D *copy))                                                                 \
  X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", (DevicePtr to, const void *from, size_t bytes, Stream *stream))         \
  X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", (void *to, DevicePtr from, size_t bytes, Stream *stream))               \
  X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", (DevicePtr to, DevicePtr from, size_t bytes, Stream *stream))           \
  X(cuMemcpyAsync, "cuMemcpyAsync", (DevicePtr to, DevicePtr from, size_t bytes, Stream *stream))                      \
  X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync",                                                                            \
    (DevicePtr to, Context * toContext, DevicePtr from, Context * fromContext, size_t bytes, Stream *stream))          \
  X(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", (const Copy2D *copy, Stream *stream))                                       \
  X(cuMemsetD8_v2, "cuMemsetD8", (DevicePtr to, unsigned char value, size_t count))                                    \
  X(cuMemsetD16_v2, "cuMemsetD16", (DevicePtr to, unsigned short value, size_t count))                                 \
  X(cuMemsetD32_v2, "cuMemsetD32", (DevicePtr to, unsigned value, size_t count))                                       \
  X(cuMemsetD8Async, "cuMemsetD8Async", (DevicePtr to, unsigned char value, size_t count, Stream *stream))             \
  X(cuMemsetD16Async, "cuMemsetD16Async", (DevicePtr to, unsigned short value, size_t count, Stream *stream))          \
  X(cuMemsetD32Async, "cuMemsetD32Async", (DevicePtr to, unsigned value, size_t count, Stream *stream))                \
  X(cuStreamCreate, "cuStreamCreate", (Stream * *stream, unsigned flags))                                              \
  X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (Stream * *stream, unsigned flags, int priority))        \
  X(cuStreamDestroy_v2, "cuStreamDestroy", (Stream * stream))                                                          \
  X(cuStreamSynchronize, "cuStreamSynchronize", (Stream * stream))                                                     \
  X(cuStreamQuery, "cuStreamQuery", (Stream * stream))                                                                 \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (Stream * stream, Event * event, unsigned flags))                          \
  X(cuStreamGetPriority, "cuStreamGetPriority", (Stream * stream, int *priority))                                      \
  X(cuStreamGetFlags, "cuStreamGetFlags", (Stream * stream, unsigned *flags))                                          \
  X(cuStreamGetCtx, "cuStreamGetCtx", (Stream * stream, Context * *context))                                           \
  X(cuLaunchHostFunc, "cuLaunchHostFunc", (Stream * stream, HostFunction function, void *data))                        \
  X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", (Stream * stream, CaptureMode mode))                              \
  X(cuStreamEndCapture, "cuStreamEndCapture", (Stream * stream, CuGraph * *graph))                                     \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (Stream * stream, CaptureStatus * status))                             \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (CaptureMode * mode))                      \
  X(cuEventCreate, "cuEventCreate", (Event * *event, unsigned flags))                                                  \
  X(cuEventDestroy_v2, "cuEventDestroy", (Event * event))                                                              \
  X(cuEventRecord, "cuEventRecord", (Event * event, Stream * stream))                                                  \
  X(cuEventRecordWithFlags, "cuEventRecordWithFlags", (Event * event, Stream * stream, unsigned flags))                \
  X(cuEventSynchronize, "cuEventSynchronize", (Event * event))                                                         \
  X(cuEventQuery, "cuEventQuery", (Event * event))                                                                     \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float *milliseconds, Event *start, Event *end))                         \
  X(cuEventElapsedTime_v2, "cuEventElapsedTime", (float *milliseconds, Event *start, Event *end))                      \
  X(cuLibraryLoadData, "cuLibraryLoadData",                                                                            \
    (CuLibrary * *library, const void *code, JitOption *jitOptions, void **jitValues, unsigned jitCount,               \
     LibraryOption *options, void **values, unsigned count))                                                           \
  X(cuLibraryUnload, "cuLibraryUnload", (CuLibrary * library))                                                         \
  X(cuLibraryGetKernel, "cuLibraryGetKernel", (CuKernel * *kernel, CuLibrary * library, const char *name))             \
  X(cuLibraryGetModule, "cuLibraryGetModule", (CuModule * *module, CuLibrary * library))                               \
  X(cuLibraryGetGlobal, "cuLibraryGetGlobal",                                                                          \
    (DevicePtr * pointer, size_t *bytes, CuLibrary *library, const char *name))                                        \
  X(cuKernelGetFunction, "cuKernelGetFunction", (CuFunction * *function, CuKernel * kernel))                           \
  X(cuKernelGetAttribute, "cuKernelGetAttribute",                                                                      \
    (int *value, FunctionAttribute attribute, CuKernel *kernel, Device device))                                        \
  X(cuKernelSetAttribute, "cuKernelSetAttribute",                                                                      \
    (FunctionAttribute attribute, int value, CuKernel *kernel, Device device))                                         \
  X(cuModuleLoadData, "cuModuleLoadData", (CuModule * *module, const void *image))                                     \
  X(cuModuleLoadDataEx, "cuModuleLoadDataEx",                                                                          \
    (CuModule * *module, const void *image, unsigned count, JitOption *options, void **values))                        \
  X(cuModuleGetFunction, "cuModuleGetFunction", (CuFunction * *function, CuModule * module, const char *name))         \
  X(cuModuleGetGlobal_v2, "cuModuleGetGlobal",                                                                         \
    (DevicePtr * pointer, size_t *bytes, CuModule *module, const char *name))                                          \
  X(cuModuleUnload, "cuModuleUnload", (CuModule * module))                                                             \
  X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *value, FunctionAttribute attribute, CuFunction *function))         \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (CuFunction * function, FunctionAttribute attribute, int value))         \
  X(cuFuncGetName, "cuFuncGetName", (const char **name, CuFunction *function))                                         \
  X(cuLaunchKernel, "cuLaunchKernel",                                                                                  \
    (CuFunction * function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,          \
     unsigned blockZ, unsigned sharedBytes, Stream *stream, void **parameters, void **extra))                          \
  X(cuLaunchKernelEx, "cuLaunchKernelEx",                                                                              \
    (const LaunchConfig *config, CuFunction *function, void **parameters, void **extra))                               \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                        \
    (int *blocks, CuFunction *function, int blockSize, size_t dynamicShared))                                          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",      \
    (int *blocks, CuFunction *function, int blockSize, size_t dynamicShared, unsigned flags))                          \
  X(cuOccupancyMaxPotentialBlockSize, "cuOccupancyMaxPotentialBlockSize",                                              \
    (int *minGridSize, int *blockSize, CuFunction *function, SharedOfBlockSize shared, size_t dynamicShared,           \
     int limit))                                                                                                       \
  X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",                                                        \
    (CuGraphExec * *exec, CuGraph * graph, unsigned long long flags))                                                  \
  X(cuGraphLaunch, "cuGraphLaunch", (CuGraphExec * exec, Stream * stream))                                             \
  X(cuGraphExecUpdate_v2, "cuGraphExecUpdate", (CuGraphExec * exec, CuGraph * graph, GraphUpdateInfo * info))          \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (CuGraphExec * exec))                                                    \
  X(cuGraphDestroy, "cuGraphDestroy", (CuGraph * graph))                                                               \
  X(cuGraphUpload, "cuGraphUpload", (CuGraphExec * exec, Stream * stream))                                             \
  X(cuGraphGetNodes, "cuGraphGetNodes", (CuGraph * graph, CuGraphNode * *nodes, size_t *count))                        \
  X(cuGraphNodeGetType, "cuGraphNodeGetType", (CuGraphNode * node, GraphNodeKind * kind))
