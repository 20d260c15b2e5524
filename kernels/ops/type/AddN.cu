// The sum of tensors of one shape, added in their order.
// SPDX-License-Identifier: Apache-2.0
#include "AddNArguments.h"
#include "DeviceTypes.cuh"

namespace opc::cuda {
namespace {

/// Halves in f32, integers modulo 2^64.
template <class T> using SumOf = std::conditional_t<std::is_integral_v<Compute<T>>, uint64_t, Compute<T>>;

template <class T> __device__ void addN(const AddNArguments &a) {
  constexpr int kFitting = static_cast<int>(16 / sizeof(T)), kWidth = kFitting < 4 ? kFitting : 4;
  using Elements = Pack<T, kWidth>;
  const int64_t packs = a.isAligned ? a.n / kWidth : 0;
#pragma unroll 1
  for (int64_t i = firstItem(); i < packs; i += itemStep()) {
    SumOf<T> sum[kWidth];
    for (int k = 0; k < a.count; ++k) {
      const Elements x = static_cast<const Elements *>(a.in[k])[i];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const SumOf<T> v = static_cast<SumOf<T>>(load(x.v[j]));
        sum[j] = k == 0 ? v : sum[j] + v;
      }
    }
    Elements y;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) y.v[j] = stored<T>(static_cast<Compute<T>>(sum[j]));
    static_cast<Elements *>(a.out)[i] = y;
  }
#pragma unroll 1
  for (int64_t i = packs * kWidth + firstItem(); i < a.n; i += itemStep()) {
    SumOf<T> sum = static_cast<SumOf<T>>(load(static_cast<const T *>(a.in[0])[i]));
    for (int k = 1; k < a.count; ++k) sum += static_cast<SumOf<T>>(load(static_cast<const T *>(a.in[k])[i]));
    static_cast<T *>(a.out)[i] = stored<T>(static_cast<Compute<T>>(sum));
  }
}

} // namespace

#define OPC_ADD_N(name, T) OPC_KERNEL(add_n_##name, AddNArguments, addN<T>)
OPC_EACH_NUMBER(OPC_ADD_N)

} // namespace opc::cuda
