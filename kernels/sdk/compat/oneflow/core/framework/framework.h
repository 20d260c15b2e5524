// The one header that OneFlow operator sources include; maps OneFlow's names onto the opc SDK.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace oneflow {
using namespace ::opc;
namespace user_op {
using namespace ::opc::user_op;
}
} // namespace oneflow

/// OneFlow's look-up gives a plain pointer, which sources take with `auto *`; nullptr for an argument that is not
/// there.
#define Tensor4ArgNameAndIndex(...) Tensor4ArgNameAndIndex(__VA_ARGS__).get()

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

#define OF_PP_CAT_IMPL(a, b) a##b
#define OF_PP_CAT(a, b) OF_PP_CAT_IMPL(a, b)
#define OF_PP_STRINGIZE_IMPL(x) #x
#define OF_PP_STRINGIZE(x) OF_PP_STRINGIZE_IMPL(x)
#define OF_PP_MAKE_TUPLE_SEQ(...) ((__VA_ARGS__))
#define OF_PP_PAIR_FIRST(pair) OF_PP_PAIR_FIRST_IMPL pair
#define OF_PP_PAIR_FIRST_IMPL(a, b) a
#define OF_PP_PAIR_SECOND(pair) OF_PP_PAIR_SECOND_IMPL pair
#define OF_PP_PAIR_SECOND_IMPL(a, b) b
