// where and masked_fill: elements moved by a condition, with broadcasting.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "ElementwiseArguments.h"

namespace opc::cuda {
namespace {

/// The inputs are the condition and the two values; the second one may be null, and is then the number that the
/// parameters begin with.
template <class M, class B> __device__ void select(const ElementwiseArguments &a) {
  const M *condition = static_cast<const M *>(a.in[0]);
  const B *x = static_cast<const B *>(a.in[1]), *y = static_cast<const B *>(a.in[2]);
  const B number = *reinterpret_cast<const B *>(a.parameters);
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    int64_t at[3] = {}, rest = i;
    if (a.rank == 0)
      for (int k = 0; k < 3; ++k) at[k] = (a.whole >> k & 1u) ? i : 0;
#pragma unroll 1
    for (int d = a.rank; d-- > 0;) {
      const int64_t index = rest % a.dims[d];
      rest /= a.dims[d];
      for (int k = 0; k < 3; ++k) at[k] += index * a.strides[k][d];
    }
    static_cast<B *>(a.out)[i] = condition[at[0]] != 0 ? (x ? x[at[1]] : number) : y[at[2]];
  }
}

/// Without broadcasting, in accesses of 16 bytes of the values.
template <class M, class B> __device__ void selectPacked(const ElementwiseArguments &a) {
  constexpr int kWidth = 16 / sizeof(B);
  using Values = Pack<B, kWidth>;
  using Conditions = Pack<M, kWidth>;
  const B number = *reinterpret_cast<const B *>(a.parameters);
  const int64_t packs = a.n / kWidth;
#pragma unroll 1
  for (int64_t i = firstItem(); i < packs; i += itemStep()) {
    const Values y = static_cast<const Values *>(a.in[2])[i];
    Values x;
    if (a.in[1]) x = static_cast<const Values *>(a.in[1])[i];
    Values out;
    Conditions c;
    if constexpr (sizeof(Conditions) <= 16) c = static_cast<const Conditions *>(a.in[0])[i];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const bool holds = sizeof(Conditions) <= 16 ? c.v[k] != 0 : static_cast<const M *>(a.in[0])[i * kWidth + k] != 0;
      out.v[k] = holds ? (a.in[1] ? x.v[k] : number) : y.v[k];
    }
    static_cast<Values *>(a.out)[i] = out;
  }
#pragma unroll 1
  for (int64_t i = packs * kWidth + firstItem(); i < a.n; i += itemStep()) {
    const bool holds = static_cast<const M *>(a.in[0])[i] != 0;
    const B x = a.in[1] ? static_cast<const B *>(a.in[1])[i] : number;
    static_cast<B *>(a.out)[i] = holds ? x : static_cast<const B *>(a.in[2])[i];
  }
}

} // namespace

#define OPC_SELECT(m, M, b, B)                                                                                         \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      select_##m##_##b(const __grid_constant__ ElementwiseArguments a) {                                               \
    if (a.rank == 0 && a.isAligned && (a.whole & 7u) == 7u)                                                            \
      selectPacked<M, B>(a);                                                                                           \
    else                                                                                                               \
      select<M, B>(a);                                                                                                 \
  }
#define OPC_SELECTS(m, M)                                                                                              \
  OPC_SELECT(m, M, 1, uint8_t)                                                                                         \
  OPC_SELECT(m, M, 2, uint16_t) OPC_SELECT(m, M, 4, uint32_t) OPC_SELECT(m, M, 8, uint64_t)
OPC_EACH_SIZE(OPC_SELECTS)

} // namespace opc::cuda
