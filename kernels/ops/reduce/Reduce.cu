// Reductions: a block for each result where neighbouring elements are reduced, a thread where they are kept.
// SPDX-License-Identifier: Apache-2.0
#include "BlockJoin.cuh"
#include "reduce/ReducePlaces.cuh"

namespace opc::cuda {
namespace {

using ops::ReduceArguments;

/// Sums and products: floats in f64, integers modulo 2^64, as on the CPU.
template <class T> using WideOf = std::conditional_t<std::is_integral_v<Compute<T>>, uint64_t, double>;

template <class T> struct Sum {
  using Acc = WideOf<T>;
  using Out = T;
  static __device__ Acc identity() { return 0; }
  static __device__ Acc of(Compute<T> x) { return static_cast<Acc>(x); }
  static __device__ Acc join(Acc a, Acc b) { return a + b; }
  static __device__ Out finish(Acc a, double) { return stored<T>(static_cast<Compute<T>>(a)); }
};
template <class T> struct Mean : Sum<T> {
  static __device__ T finish(double a, double divisor) { return stored<T>(static_cast<Compute<T>>(a / divisor)); }
};
template <class T> struct NanSum : Sum<T> {
  static __device__ double of(Compute<T> x) { return x == x ? static_cast<double>(x) : 0.0; }
};
template <class T> struct Prod : Sum<T> {
  using Acc = WideOf<T>;
  static __device__ Acc identity() { return 1; }
  static __device__ Acc join(Acc a, Acc b) { return a * b; }
};
/// NaN wins over everything.
template <class T, bool kMax> struct Extreme {
  using Acc = Compute<T>;
  using Out = T;
  static __device__ Acc identity() {
    if constexpr (std::is_same_v<Acc, float>)
      return kMax ? -scalar::f32::kInf : scalar::f32::kInf;
    else if constexpr (std::is_same_v<Acc, double>)
      return kMax ? -scalar::f32::kInf64 : scalar::f32::kInf64;
    else
      return kMax ? std::numeric_limits<Acc>::lowest() : std::numeric_limits<Acc>::max();
  }
  static __device__ Acc of(Acc x) { return x; }
  static __device__ Acc join(Acc a, Acc b) {
    const Acc r = (kMax ? b > a : b < a) ? b : a;
    return b != b ? b : r;
  }
  static __device__ Out finish(Acc a, double) { return stored<T>(a); }
};
template <class T> using Max = Extreme<T, true>;
template <class T> using Min = Extreme<T, false>;
/// NaN is not zero.
template <class T, bool kAll> struct Truth {
  using Acc = uint32_t;
  using Out = bool;
  static __device__ Acc identity() { return kAll; }
  static __device__ Acc of(Compute<T> x) { return x != Compute<T>(0); }
  static __device__ Acc join(Acc a, Acc b) { return kAll ? (a & b) : (a | b); }
  static __device__ bool finish(Acc a, double) { return a != 0; }
};
template <class T> using Any = Truth<T, false>;
template <class T> using All = Truth<T, true>;

/// A block for each result; the order of the additions depends on the count alone.
template <class T, template <class> class R> __device__ void rows(const ReduceArguments &a) {
  using Acc = typename R<T>::Acc;
  for (int64_t o = blockIdx.x; o < a.outputs; o += gridDim.x) {
    const T *in = static_cast<const T *>(a.in) + keptPlace(a, o);
    Acc acc = R<T>::identity();
    for (int64_t i = threadIdx.x; i < a.count; i += kJoinThreads)
      acc = R<T>::join(acc, R<T>::of(load(in[reducedPlace(a, i)])));
    acc = joinBlock(acc, [](Acc x, Acc y) { return R<T>::join(x, y); });
    if (threadIdx.x == 0) static_cast<typename R<T>::Out *>(a.out)[o] = R<T>::finish(acc, a.divisor);
  }
}

/// A thread for each result.
template <class T, template <class> class R> __device__ void columns(const ReduceArguments &a) {
  using Acc = typename R<T>::Acc;
#pragma unroll 1
  for (int64_t o = firstItem(); o < a.outputs; o += itemStep()) {
    const T *in = static_cast<const T *>(a.in) + keptPlace(a, o);
    Acc acc = R<T>::identity();
    for (int64_t i = 0; i < a.count; ++i) acc = R<T>::join(acc, R<T>::of(load(in[reducedPlace(a, i)])));
    static_cast<typename R<T>::Out *>(a.out)[o] = R<T>::finish(acc, a.divisor);
  }
}

} // namespace

#define OPC_REDUCE(op, R, name, T)                                                                                     \
  OPC_KERNEL(op##_rows_##name, ReduceArguments, rows<T, R>)                                                            \
  OPC_KERNEL(op##_columns_##name, ReduceArguments, columns<T, R>)
#define OPC_REDUCE_FLOATS(op, R)                                                                                       \
  OPC_REDUCE(op, R, f32, float)                                                                                        \
  OPC_REDUCE(op, R, f64, double) OPC_REDUCE(op, R, f16, float16) OPC_REDUCE(op, R, bf16, bfloat16)
#define OPC_REDUCE_INTEGERS(op, R)                                                                                     \
  OPC_REDUCE(op, R, i8, int8_t)                                                                                        \
  OPC_REDUCE(op, R, u8, uint8_t)                                                                                       \
  OPC_REDUCE(op, R, i16, int16_t)                                                                                      \
  OPC_REDUCE(op, R, u16, uint16_t)                                                                                     \
  OPC_REDUCE(op, R, i32, int32_t)                                                                                      \
  OPC_REDUCE(op, R, u32, uint32_t) OPC_REDUCE(op, R, i64, int64_t) OPC_REDUCE(op, R, u64, uint64_t)

#define OPC_REDUCE_NUMBERS(op, R) OPC_REDUCE_FLOATS(op, R) OPC_REDUCE_INTEGERS(op, R)
#define OPC_REDUCE_TRUTH(op, R)                                                                                        \
  OPC_REDUCE(op, R, bool, bool)                                                                                        \
  OPC_REDUCE(op, R, f32, float) OPC_REDUCE(op, R, f64, double) OPC_REDUCE_INTEGERS(op, R)

OPC_REDUCE_NUMBERS(reduce_sum, Sum)
OPC_REDUCE_FLOATS(reduce_mean, Mean)
OPC_REDUCE_FLOATS(reduce_nansum, NanSum)
OPC_REDUCE_NUMBERS(reduce_max, Max)
OPC_REDUCE_NUMBERS(reduce_min, Min)
OPC_REDUCE_NUMBERS(reduce_prod, Prod)
OPC_REDUCE_TRUTH(reduce_any, Any)
OPC_REDUCE_TRUTH(reduce_all, All)

} // namespace opc::cuda
