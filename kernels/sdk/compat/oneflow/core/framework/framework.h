// The one header that OneFlow operator sources include; maps OneFlow's names onto the opc SDK.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type.h"
#include "oneflow/core/common/shape.h"
#include "oneflow/core/framework/to_string.h"
#include "oneflow/core/job/sbp_parallel.h"

/// OneFlow's look-up gives a plain pointer, which sources take with `auto *`; nullptr for an argument that is not
/// there.
#define Tensor4ArgNameAndIndex(...) Tensor4ArgNameAndIndex(__VA_ARGS__).get()

namespace oneflow::user_op {
using InputArgModifier = InputBlobModifier;
using OutputArgModifier = OutputBlobModifier;
} // namespace oneflow::user_op

/// A grid-stride loop over int32 indices.
#define CUDA_1D_KERNEL_LOOP(i, n)                                                                                      \
  for (int32_t i = blockIdx.x * blockDim.x + threadIdx.x, step = blockDim.x * gridDim.x; i < (n); i += step)
#define CUDA_1D_KERNEL_LOOP_T(type, i, n)                                                                              \
  for (type i = blockIdx.x * blockDim.x + threadIdx.x, step = blockDim.x * gridDim.x; i < (n); i += step)

namespace oneflow {
constexpr int32_t kCudaThreadsNumPerBlock = 512;
constexpr int32_t kCudaMaxBlocksNum = 8192;
/// Blocks that cover n threads, within the grid that OneFlow used.
inline int32_t BlocksNum4ThreadsNum(int32_t n) {
  return std::max(1, std::min((n + kCudaThreadsNumPerBlock - 1) / kCudaThreadsNumPerBlock, kCudaMaxBlocksNum));
}
} // namespace oneflow
