// Where cuda.h is installed: every value, size and signature of CudaAbi.h is that of cuda.h. Compiles to nothing.
// SPDX-License-Identifier: Apache-2.0
#include "DriverFunctions.h"

#ifdef OPC_HAS_CUDA_H

#include <cuda.h>
#include <type_traits>

namespace opc::gpusim::driver {
namespace {

#define GPUSIM_CHECK(name, cudaName, value, text)                                                                      \
  static_assert(static_cast<int>(k##name) == static_cast<int>(::cudaName), "the value of " #cudaName);
GPUSIM_RESULTS(GPUSIM_CHECK)
#undef GPUSIM_CHECK

#define GPUSIM_CHECK(name, cudaName, value)                                                                            \
  static_assert(static_cast<int>(kAttribute##name) == static_cast<int>(::CU_DEVICE_ATTRIBUTE_##cudaName), #cudaName);
GPUSIM_DEVICE_ATTRIBUTES(GPUSIM_CHECK)
#undef GPUSIM_CHECK

#define GPUSIM_SAME(own, theirs) static_assert(static_cast<long>(own) == static_cast<long>(::theirs), #theirs);
GPUSIM_SAME(kFunctionMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
GPUSIM_SAME(kFunctionSharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
GPUSIM_SAME(kFunctionConstSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)
GPUSIM_SAME(kFunctionLocalSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
GPUSIM_SAME(kFunctionNumRegs, CU_FUNC_ATTRIBUTE_NUM_REGS)
GPUSIM_SAME(kFunctionPtxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION)
GPUSIM_SAME(kFunctionBinaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION)
GPUSIM_SAME(kFunctionMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
GPUSIM_SAME(kFunctionPreferredSharedMemoryCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
GPUSIM_SAME(kPointerContext, CU_POINTER_ATTRIBUTE_CONTEXT)
GPUSIM_SAME(kPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
GPUSIM_SAME(kPointerDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
GPUSIM_SAME(kPointerHostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER)
GPUSIM_SAME(kPointerDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
GPUSIM_SAME(kMemoryHost, CU_MEMORYTYPE_HOST)
GPUSIM_SAME(kMemoryDevice, CU_MEMORYTYPE_DEVICE)
GPUSIM_SAME(kMemoryArray, CU_MEMORYTYPE_ARRAY)
GPUSIM_SAME(kMemoryUnified, CU_MEMORYTYPE_UNIFIED)
GPUSIM_SAME(kJitInfoLog, CU_JIT_INFO_LOG_BUFFER)
GPUSIM_SAME(kJitInfoLogBytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
GPUSIM_SAME(kJitErrorLog, CU_JIT_ERROR_LOG_BUFFER)
GPUSIM_SAME(kJitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
GPUSIM_SAME(kCaptureGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL)
GPUSIM_SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
GPUSIM_SAME(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED)
GPUSIM_SAME(kCaptureNone, CU_STREAM_CAPTURE_STATUS_NONE)
GPUSIM_SAME(kCaptureActive, CU_STREAM_CAPTURE_STATUS_ACTIVE)
GPUSIM_SAME(kCaptureInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED)
GPUSIM_SAME(kNodeKernel, CU_GRAPH_NODE_TYPE_KERNEL)
GPUSIM_SAME(kNodeMemcpy, CU_GRAPH_NODE_TYPE_MEMCPY)
GPUSIM_SAME(kNodeMemset, CU_GRAPH_NODE_TYPE_MEMSET)
GPUSIM_SAME(kNodeHost, CU_GRAPH_NODE_TYPE_HOST)
GPUSIM_SAME(kNodeEmpty, CU_GRAPH_NODE_TYPE_EMPTY)
GPUSIM_SAME(kUpdateSuccess, CU_GRAPH_EXEC_UPDATE_SUCCESS)
GPUSIM_SAME(kUpdateError, CU_GRAPH_EXEC_UPDATE_ERROR)
GPUSIM_SAME(kUpdateTopologyChanged, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED)
GPUSIM_SAME(kUpdateNodeTypeChanged, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED)
GPUSIM_SAME(kUpdateFunctionChanged, CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED)
GPUSIM_SAME(kProcFound, CU_GET_PROC_ADDRESS_SUCCESS)
GPUSIM_SAME(kProcNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
GPUSIM_SAME(kProcVersionNotSufficient, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
GPUSIM_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING)
GPUSIM_SAME(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC)
GPUSIM_SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING)
GPUSIM_SAME(kEventInterprocess, CU_EVENT_INTERPROCESS)
#undef GPUSIM_SAME
static_assert(kLastDeviceAttribute >= ::CU_DEVICE_ATTRIBUTE_MAX - 1);

#define GPUSIM_LAYOUT(Own, Theirs, own, theirs)                                                                        \
  static_assert(offsetof(Own, own) == offsetof(::Theirs, theirs) && sizeof(Own::own) == sizeof(::Theirs::theirs));
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, srcXInBytes, srcXInBytes)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, srcMemoryType, srcMemoryType)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, srcHost, srcHost)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, srcDevice, srcDevice)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, srcPitch, srcPitch)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, dstXInBytes, dstXInBytes)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, dstMemoryType, dstMemoryType)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, dstHost, dstHost)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, dstDevice, dstDevice)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, dstPitch, dstPitch)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, widthInBytes, WidthInBytes)
GPUSIM_LAYOUT(Copy2D, CUDA_MEMCPY2D, height, Height)
GPUSIM_LAYOUT(LaunchConfig, CUlaunchConfig, gridX, gridDimX)
GPUSIM_LAYOUT(LaunchConfig, CUlaunchConfig, blockX, blockDimX)
GPUSIM_LAYOUT(LaunchConfig, CUlaunchConfig, sharedBytes, sharedMemBytes)
GPUSIM_LAYOUT(LaunchConfig, CUlaunchConfig, stream, hStream)
GPUSIM_LAYOUT(LaunchConfig, CUlaunchConfig, attributes, attrs)
GPUSIM_LAYOUT(LaunchConfig, CUlaunchConfig, attributeCount, numAttrs)
GPUSIM_LAYOUT(GraphUpdateInfo, CUgraphExecUpdateResultInfo, result, result)
GPUSIM_LAYOUT(GraphUpdateInfo, CUgraphExecUpdateResultInfo, node, errorNode)
GPUSIM_LAYOUT(GraphUpdateInfo, CUgraphExecUpdateResultInfo, from, errorFromNode)
static_assert(sizeof(Copy2D) == sizeof(::CUDA_MEMCPY2D) && sizeof(LaunchConfig) == sizeof(::CUlaunchConfig) &&
              sizeof(GraphUpdateInfo) == sizeof(::CUgraphExecUpdateResultInfo) && sizeof(Uuid) == sizeof(::CUuuid));
#undef GPUSIM_LAYOUT

template <class T> constexpr bool isNumber = std::is_integral_v<T> || std::is_enum_v<T>;

/// Passed in the same register as the same bytes.
template <class A, class B>
constexpr bool sameInCalls =
    sizeof(A) == sizeof(B) && ((std::is_pointer_v<A> && std::is_pointer_v<B>) || (isNumber<A> && isNumber<B>));
template <class A, class B> constexpr bool sameSignature = false;
template <class R, class S, class... As, class... Bs>
  requires(sizeof...(As) == sizeof...(Bs))
constexpr bool sameSignature<R(As...), S(Bs...)> = sameInCalls<R, S> && (sameInCalls<As, Bs> && ...);

#define GPUSIM_SIGNATURE(symbol, name, parameters)                                                                     \
  static_assert(sameSignature<CuResult parameters, decltype(::symbol)>, "the signature of " #symbol);
GPUSIM_FUNCTIONS(GPUSIM_SIGNATURE)
#undef GPUSIM_SIGNATURE

} // namespace
} // namespace opc::gpusim::driver

#endif
