// var and logsumexp: two passes over the elements of each result, the first of which gives the second its shift. And
// the gradient of products, in two passes as well.
// SPDX-License-Identifier: Apache-2.0
#include "BlockJoin.cuh"
#include "HeldElements.cuh"
#include "reduce/ReducePlaces.cuh"

namespace opc::cuda {
namespace {

using ops::ReduceArguments;

/// The mean; the sum of squared distances from it.
template <class T> struct Variance {
  static __device__ double identity() { return 0; }
  static __device__ double join(double a, double b) { return a + b; }
  static __device__ double of(Compute<T> x) { return static_cast<double>(x); }
  static __device__ double shift(double sum, const ReduceArguments &a) { return sum / static_cast<double>(a.count); }
  static __device__ double term(Compute<T> x, double mean) {
    const double d = static_cast<double>(x) - mean;
    return d * d;
  }
  static __device__ double result(double sum, double, const ReduceArguments &a) { return sum / a.divisor; }
};
/// The largest; the sum of exp(x - largest). NaN is larger than everything, infinities shift nothing.
template <class T> struct LogSumExp {
  static __device__ double identity() { return -scalar::f32::kInf64; }
  static __device__ double join(double a, double b) { return b != b || b > a ? b : a; }
  static __device__ double of(Compute<T> x) { return static_cast<double>(x); }
  static __device__ double shift(double most, const ReduceArguments &) { return isinf(most) ? 0.0 : most; }
  static __device__ double term(Compute<T> x, double shift) {
    return static_cast<double>(exp(static_cast<Compute<T>>(x - static_cast<Compute<T>>(shift))));
  }
  static __device__ double result(double sum, double shift, const ReduceArguments &) { return log(sum) + shift; }
};

constexpr int kHeld = 4; // of a thread: up to 1024 elements of a result are read once

/// A block for each result.
template <class T, template <class> class R> __device__ void rows(const ReduceArguments &a) {
  for (int64_t o = blockIdx.x; o < a.outputs; o += gridDim.x) {
    const T *in = static_cast<const T *>(a.in) + keptPlace(a, o);
    const auto at = [&a](int64_t i) { return reducedPlace(a, i); };
    const auto elements = held<kHeld>(in, at, threadIdx.x, a.count, kJoinThreads);
    double first = R<T>::identity(), sum = 0;
    elements.each([&](int64_t, Compute<T> v) { first = R<T>::join(first, R<T>::of(v)); });
    const double shift = R<T>::shift(joinBlock(first, [](double x, double y) { return R<T>::join(x, y); }), a);
    elements.each([&](int64_t, Compute<T> v) { sum += R<T>::term(v, shift); });
    sum = joinOnce(sum, Add{}); // the next result begins with barriers
    if (threadIdx.x == 0) static_cast<T *>(a.out)[o] = stored<T>(static_cast<Compute<T>>(R<T>::result(sum, shift, a)));
  }
}
/// A thread for each.
template <class T, template <class> class R> __device__ void columns(const ReduceArguments &a) {
#pragma unroll 1
  for (int64_t o = firstItem(); o < a.outputs; o += itemStep()) {
    const T *in = static_cast<const T *>(a.in) + keptPlace(a, o);
    const auto element = [&](int64_t i) { return load(in[reducedPlace(a, i)]); };
    double first = R<T>::identity(), sum = 0;
    for (int64_t i = 0; i < a.count; ++i) first = R<T>::join(first, R<T>::of(element(i)));
    const double shift = R<T>::shift(first, a);
    for (int64_t i = 0; i < a.count; ++i) sum += R<T>::term(element(i), shift);
    static_cast<T *>(a.out)[o] = stored<T>(static_cast<Compute<T>>(R<T>::result(sum, shift, a)));
  }
}

/// For each result the product of the factors that are not 0, and how many are: with none dx = dy p / x, with one it
/// alone has a gradient. a.in is x, a.out dx.
template <class T> __device__ void prodGrad(const ReduceArguments &a, const void *dy) {
#pragma unroll 1
  for (int64_t o = firstItem(); o < a.outputs; o += itemStep()) {
    const int64_t at = keptPlace(a, o);
    const T *in = static_cast<const T *>(a.in) + at;
    T *out = static_cast<T *>(a.out) + at;
    double product = 1;
    int64_t zeros = 0;
    for (int64_t i = 0; i < a.count; ++i) {
      const double v = static_cast<double>(load(in[reducedPlace(a, i)]));
      if (v == 0)
        ++zeros;
      else
        product *= v;
    }
    const double share = zeros > 1 ? 0.0 : static_cast<double>(load(static_cast<const T *>(dy)[o])) * product;
    for (int64_t i = 0; i < a.count; ++i) {
      const int64_t k = reducedPlace(a, i);
      const double v = static_cast<double>(load(in[k]));
      out[k] = stored<T>(static_cast<Compute<T>>(zeros == 0 ? share / v : v == 0 ? share : 0.0));
    }
  }
}

// --- whole tensors: parts by blocks, whose number depends on the size alone, and the sum of the parts ----------------

/// The square of an element; whether it is not finite; the product of two.
struct Square {
  template <class C> static __device__ auto of(C x, C) {
    if constexpr (std::is_integral_v<C>)
      return static_cast<uint64_t>(x) * static_cast<uint64_t>(x);
    else
      return static_cast<double>(x * x);
  }
};
struct NotFinite {
  template <class C> static __device__ uint64_t of(C x, C) { return isfinite(x) ? 0 : 1; }
};
struct Product {
  template <class C> static __device__ auto of(C x, C y) {
    if constexpr (std::is_integral_v<C>)
      return static_cast<uint64_t>(x) * static_cast<uint64_t>(y);
    else
      return static_cast<double>(x) * static_cast<double>(y);
  }
};

template <class T, class Term> __device__ void partsOf(const void *x, const void *y, void *parts, int64_t n) {
  using Sum = decltype(Term::of(Compute<T>{}, Compute<T>{}));
  Sum sum = 0;
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep())
    sum += Term::of(load(static_cast<const T *>(x)[i]), y ? load(static_cast<const T *>(y)[i]) : Compute<T>{});
  sum = joinOnce(sum, Add{});
  if (threadIdx.x == 0) static_cast<Sum *>(parts)[blockIdx.x] = sum;
}
template <class Sum, class T> __device__ void sumParts(const void *parts, int64_t count, void *out) {
  Sum sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kJoinThreads) sum += static_cast<const Sum *>(parts)[i];
  sum = joinOnce(sum, Add{});
  if (threadIdx.x == 0) *static_cast<T *>(out) = stored<T>(static_cast<Compute<T>>(sum));
}

} // namespace

#define OPC_TWICE(op, R, name, T)                                                                                      \
  OPC_KERNEL(op##_rows_##name, ReduceArguments, rows<T, R>)                                                            \
  OPC_KERNEL(op##_columns_##name, ReduceArguments, columns<T, R>)
#define OPC_PARTS(op, Term, name, T)                                                                                   \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      op##_parts_##name(const void *x, const void *y, void *parts, int64_t n) {                                        \
    partsOf<T, Term>(x, y, parts, n);                                                                                  \
  }
#define OPC_SUM_PARTS(name, Sum, T)                                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 1) sum_parts_##name(const void *parts, int64_t count, void *out) { \
    sumParts<Sum, T>(parts, count, out);                                                                               \
  }
#define OPC_MOMENTS(name, T)                                                                                           \
  OPC_TWICE(var, Variance, name, T)                                                                                    \
  OPC_TWICE(logsumexp, LogSumExp, name, T)                                                                             \
  OPC_PARTS(square_sum, Square, name, T)                                                                               \
  OPC_PARTS(count_not_finite, NotFinite, name, T)                                                                      \
  OPC_PARTS(dot, Product, name, T)                                                                                     \
  OPC_SUM_PARTS(name, double, T)                                                                                       \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      reduce_prod_grad_##name(const __grid_constant__ ReduceArguments a, const void *dy) {                             \
    prodGrad<T>(a, dy);                                                                                                \
  }
OPC_EACH_FLOAT(OPC_MOMENTS)
OPC_PARTS(dot, Product, i32, int32_t)
OPC_SUM_PARTS(i32, uint64_t, int32_t)
OPC_SUM_PARTS(i64, uint64_t, int64_t)

} // namespace opc::cuda
